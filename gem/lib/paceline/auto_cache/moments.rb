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
        [SecureRandom, Random, Kernel].each { |source| Hooks.on_class(source, CHANCE) { |_, name| read("#{source}.#{name}") } }
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
