# frozen_string_literal: true

# What this process has spent, in microseconds, for those who count it. Keeps nothing.
module Paceline
  module Server
    module ProcessTimes
      private

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond)
      end

      # Garbage collection of the whole process.
      if GC.respond_to?(:total_time)
        def gc_time = GC.total_time / 1000
      else
        def gc_time = (GC.stat(:time) || 0) * 1000
      end
    end
  end
end
