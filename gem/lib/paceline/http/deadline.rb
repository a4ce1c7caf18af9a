# frozen_string_literal: true

# The moment after which nobody waits for this thread's outbound calls any longer. Time-outs shrink to what is left of it; none grows.
module Paceline
  module HTTP
    module Deadline
      class << self
        # Monotonic seconds, or nil.
        def current
          Thread.current.thread_variable_get(:paceline_deadline)
        end

        # For code that knows when this thread's web request has to be answered: monotonic seconds (Process::CLOCK_MONOTONIC), or nil for none.
        def current=(moment)
          Thread.current.thread_variable_set(:paceline_deadline, moment)
        end

        # At most so many seconds for the block; an earlier deadline holds.
        def within(seconds)
          before = current
          moment = HTTP.now + seconds
          self.current = [before, moment].compact.min
          yield
        ensure
          self.current = before
        end

        # A time-out (s or nil), or what is left if that is less. Raises DeadlineExceeded if nothing is.
        def shrink(timeout)
          moment = current or return timeout
          left = moment - HTTP.now
          raise DeadlineExceeded unless left.positive?

          timeout.nil? || left < timeout ? left : timeout
        end
      end
    end
  end
end
