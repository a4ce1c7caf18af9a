# frozen_string_literal: true

# The clock and chance, where a line of the application (or a helper for it) reads them. What a framework reads for its own
# ends, such as to measure or to sign, is left out. Returns what the plain methods do.
require "securerandom"
require_relative "clock"
require_relative "hooks"

module Paceline
  module AutoCache
    module Moments
      CHANCE = %i[rand random_number bytes random_bytes hex uuid base64 urlsafe_base64 alphanumeric new_seed seed urandom].freeze

      def self.install
        Clock::Methods.install
        Hooks.on_class(DateTime, [:now]) { read("DateTime.now") } if defined?(DateTime)
        Process.singleton_class.prepend(Real)
        Hooks.reading(Real)
        { SecureRandom => CHANCE - Texts::FORMS.keys, Random => CHANCE, Kernel => CHANCE }.each do |source, names|
          Hooks.on_class(source, names) { |_, name| read("#{source}.#{name}") }
        end
        SecureRandom.singleton_class.prepend(Texts)
        Hooks.reading(Texts)
        # One with a seed of its own.
        Hooks.on_class(Random, [:new]) { |_, _, arguments| read("Random.new") if arguments.empty? }
        Hooks.on(Object, [:rand]) { read("rand") }
        Hooks.on(Array, %i[shuffle shuffle! sample]) { |_, name| read("Array##{name}") }
      end

      def self.read(what)
        recording = AutoCache.recording
        return if recording.quiet?

        # What is called while the reader is looked for reads nothing.
        place = recording.quiet { AutoCache.readers.reader }
        recording.moment(what, place) if place
      end

      # A random text that the application makes. It keeps the page if it does no more there than name elements: the front makes a new one for each visitor.
      module Texts
        # Methods that take no more than a length, with the form of what they make, as random_text.rs knows it.
        FORMS = {
          hex: ["hex", /\A(?:[0-9a-f]{2}){4,128}\z/],
          uuid: ["uuid", /\A[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\z/],
          alphanumeric: ["alphanumeric", /\A[A-Za-z0-9]{8,256}\z/],
          urlsafe_base64: ["base64url", /\A[A-Za-z0-9_-]{8,256}\z/]
        }.freeze

        FORMS.each do |name, (form, pattern)|
          define_method(name) do |*arguments, **options|
            recording = AutoCache.recording
            place = recording.quiet { AutoCache.readers.reader } if recording && !recording.quiet?
            return super(*arguments, **options) unless place

            text = recording.quiet { super(*arguments, **options) }
            is_known = options.empty? && arguments.size < 2 && arguments.all?(Integer) && text.instance_of?(String) && text.match?(pattern)
            is_known ? recording.random(form, text, place) : recording.moment("SecureRandom.#{name}", place)
            text
          end
        end
      end

      # Most calls measure a duration, by another clock.
      module Real
        # With a list of arguments each call would make an object. `unit` is as if it was not given.
        def clock_gettime(clock, unit = :float_second)
          Moments.read("clock_gettime") if clock == Process::CLOCK_REALTIME && AutoCache.recording
          super
        end
      end
    end
  end
end
