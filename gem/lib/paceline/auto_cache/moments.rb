# frozen_string_literal: true

# The clock and chance, where a line of the application (or a helper for it) reads them. What a framework reads for its own
# ends, such as to measure or to sign, is left out. Returns what the plain methods do.
require "securerandom"
require_relative "hooks"

module Paceline
  module AutoCache
    module Moments
      CHANCE = %i[rand random_number bytes random_bytes hex uuid base64 urlsafe_base64 alphanumeric].freeze

      def self.install
        clocks = [Time]
        clocks << DateTime if defined?(DateTime)
        clocks.each { |clock| Hooks.on_class(clock, [:now]) { read("#{clock}.now") } }
        Hooks.on_class(Date, [:today]) { read("Date.today") } if defined?(Date)
        Process.singleton_class.prepend(Real)
        [SecureRandom, Random, Kernel].each { |source| Hooks.on_class(source, CHANCE) { |_, name| read("#{source}.#{name}") } }
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
        def clock_gettime(clock, *)
          Moments.read("clock_gettime") if clock == Process::CLOCK_REALTIME && AutoCache.recording
          super
        end
      end
    end
  end
end
