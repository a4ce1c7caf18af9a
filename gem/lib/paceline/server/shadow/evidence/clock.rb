# frozen_string_literal: true

require_relative "../cost"

# The time of observers. It never reads the time of day, which a shadow shifts.
module Paceline
  module Server
    module Shadow
      class Evidence
        # Microseconds that pass for the application. What observers do for themselves is left out, and so is garbage collection: it comes whenever memory
        # is short, and observers use memory, too. Nor does it count while the request's thread is ready and has no processor, as in a Cost: parts of a request
        # would take longer than all of it.
        module Clock
          # Bytes: three numbers.
          SCHEDULE_SIZE = 80
          private_constant :SCHEDULE_SIZE

          @aside = 0.0
          @waited = 0.0

          class << self
            def now
              raw - @aside
            end

            # Does an observer's own work, which takes no time on this clock.
            def aside
              return yield if @within.equal?(Thread.current)

              began, @within = raw, Thread.current
              begin
                yield
              ensure
                @within = nil
                @aside += raw - began
              end
            end

            # This thread answers the request. What it is read from stays open: other threads may read the clock at any time.
            def follow_thread
              return if @followed.equal?(Thread.current)

              @followed, @schedule = Thread.current, File.open(SCHEDULED)
            rescue SystemCallError
              nil
            end

            private

            def raw
              Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_microsecond) - (::GC.total_time / 1000.0) - waited
            end

            # As Cost.waiting, at a third of its price: a query needs it twice.
            def waited
              @waited = Cost.waited(@schedule.pread(SCHEDULE_SIZE, 0)) if @schedule
              @waited
            rescue SystemCallError, IOError # the thread has ended
              @waited
            end
          end
        end

        # A stop watch for calls that may contain each other.
        class Meter
          # Microseconds so far.
          attr_reader :us

          def initialize
            @us = 0.0
            @since = :"paceline_meter_#{object_id}"
          end

          # Times the block; within a block that is timed already it changes nothing. Returns what the block returns.
          def run
            return yield if Thread.current[@since]

            begin
              Thread.current[@since] = Clock.now
              yield
            ensure
              stop
            end
          end

          # The block's time does not count.
          def pause
            return yield unless Thread.current[@since]

            begin
              stop
              yield
            ensure
              Thread.current[@since] = Clock.now
            end
          end

          private

          def stop
            @us += Clock.now - Thread.current[@since]
            Thread.current[@since] = nil
          end
        end
      end
    end
  end
end
