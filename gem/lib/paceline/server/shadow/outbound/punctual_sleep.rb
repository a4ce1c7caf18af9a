# frozen_string_literal: true

# Sleeps until a moment. A process wakes up late, and it woke up late when the times were recorded, too: so this goes to bed earlier by the lateness
# that is usual here. It never waits in a loop that keeps the processor busy.
module Paceline
  class PunctualSleep
    # Microseconds: by how much one sleep changes what is usual, and the most that it is.
    STEP = 50
    MAX = 2000
    private_constant :STEP, :MAX

    # Monotonic microseconds.
    def self.now
      Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond)
    end

    def initialize
      # Follows the median: a sleep that is very late changes no more than others.
      @usual = 0
    end

    # `moment`: monotonic microseconds.
    def until(moment)
      goal = moment - @usual
      return unless goal > PunctualSleep.now

      while (left = goal - PunctualSleep.now).positive?
        sleep(left / 1_000_000.0)
      end
      @usual = (@usual + (left.abs > @usual ? STEP : -STEP)).clamp(0, MAX)
    end
  end
end
