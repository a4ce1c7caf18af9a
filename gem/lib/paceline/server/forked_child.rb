# frozen_string_literal: true

# What becomes of a process that the application forks from a worker or a preloader: it has a life of its own, and takes no part in the
# conversation with the front. It closes what leads there, writes nothing to it, and ends when the application's code returns.
require_relative "../native"

module Paceline
  module Server
    module ForkedChild
      # Kernel#fork, Process.fork and IO.popen("-") call `_fork` in the process that forks and in its child; Process.daemon does not.
      module Hook
        def _fork
          super.tap { |pid| ForkedChild.let_go if pid.zero? }
        end

        def daemon(...)
          super.tap { ForkedChild.let_go }
        end
      end
      Process.singleton_class.prepend(Hook)

      # Before Ruby 3.3 Process.pid asks the kernel each time, and once is enough for each answer.
      REMEMBERS_PID = (RUBY_VERSION.split(".").map(&:to_i) <=> [3, 3]) >= 0
      private_constant :REMEMBERS_PID

      class << self
        # From now on this process talks to the front, and nobody that it forks does. A child calls OWNER's `let_go`.
        def guard(owner)
          @owner = owner
          @pid = Process.pid
          @marked = Native && Native.mark_process
        end

        # For a fork whose child is to talk to the front as well, once it has called `guard` itself.
        def deliberately
          owner, @owner = @owner, nil
          yield
        ensure
          @owner = owner
        end

        # Whether the application has forked this process. Asks the kernel: a C library may have forked without a word to Ruby, which remembers its
        # own number from 3.3 on, and its parent's never.
        def here?
          return Native.forked? if @marked
          !@pid.nil? && (Process.pid != @pid || (REMEMBERS_PID && Process.ppid == @pid))
        end

        def let_go
          @owner&.let_go if here?
        end

        # Ends a child in which the application's code has returned, or raised ERROR. `exit` runs the handlers of at_exit, as in any process;
        # otherwise they belong to the process that was forked.
        def leave(error = nil)
          raise error if error.is_a?(SystemExit)
          exit!(error.nil?)
        end
      end
    end
  end
end
