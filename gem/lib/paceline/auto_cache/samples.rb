# frozen_string_literal: true

# Which requests of a process are recorded in mode watch: the first ones, and then those of half a second in twenty. The front decides the
# same by the same clock (samples.rs), and does not miss the others.
#
#   samples = Paceline::AutoCache::Samples.new
#   samples.take?     # => true, 300 times; from then on in half a second of twenty
module Paceline
  module AutoCache
    class Samples
      FIRST = 300
      # Seconds: how often, and for how long.
      EVERY = 20
      LONG = 0.5

      def initialize
        @asked = 0
      end

      # Threads may count at once; some more are recorded then.
      def take?(now = Process.clock_gettime(Process::CLOCK_MONOTONIC))
        return true if (@asked += 1) <= FIRST

        now % EVERY < LONG
      end
    end
  end
end
