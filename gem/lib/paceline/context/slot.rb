# frozen_string_literal: true

require_relative "../uninterrupted"

module Paceline
  class Context
    # Where the scope of the running code is. Fibers of a thread share it: by Ruby's fiber storage (3.2 and newer), before by a variable of the thread, or of
    # the fiber where a scheduler runs several requests in one thread. A thread never has the scope of another, not even of the one that started it: a pool's
    # thread would keep that of the request that happened to need it first.
    module Slot
      KEY = :paceline_scope
      DEFAULT = { Object => :immediate }.freeze
      private_constant :KEY, :DEFAULT

      class << self
        if Fiber.respond_to?(:[])
          # What was put there last, here or by who made this fiber; it may have ended, or be another thread's.
          def held
            Fiber[KEY]
          end

          # Puts a scope there; nil: none.
          def hold(scope)
            Fiber[KEY] = scope
          end
        else
          # A variable of the thread, as `thread_variable_get`, in a third of the time.
          Thread.class_eval { attr_accessor :paceline_scope }

          def held
            thread = Thread.current
            thread[KEY] || thread.paceline_scope
          end

          def hold(scope)
            Fiber.blocking? ? Thread.current.paceline_scope = scope : Thread.current[KEY] = scope
          end
        end

        # The scope that this code runs in, or nil.
        def scope
          scope = held
          scope if scope&.here?
        end

        # Runs the block in this scope, which is of this thread and ends with it; nil: in none. However the block ends, what was there before is there again.
        def with(scope)
          scope ||= Scope::NONE
          Thread.handle_interrupt(UNINTERRUPTED) do
            before = held
            hold(scope)
            begin
              Thread.handle_interrupt(DEFAULT) { yield }
            ensure
              hold(before)
              scope.finish
            end
          end
        end
      end
    end
    private_constant :Slot
  end
end
