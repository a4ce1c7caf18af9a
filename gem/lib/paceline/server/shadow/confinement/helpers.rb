# frozen_string_literal: true

# Threads that began before the process was confined, and so are not: the kernel confines a thread and those that it starts. They do what a guard has let
# through, and run no other code of the application. They never end: Ruby may give the thread of the kernel that belonged to one to a new one.
module Paceline
  module Server
    module Shadow
      module Confinement
        class Helpers
          HELPER = :paceline_shadow_helper
          private_constant :HELPER

          def initialize
            @owner = ::Process.pid
            @jobs = Thread::Queue.new
            @mutex = Thread::Mutex.new
            @idle = 0
            start
          end

          # Runs the block in one of them. Returns its value, or raises what it raises. In a child of this process there are none.
          def call(&block)
            return yield if ::Process.pid != @owner || here?

            answer = Thread::Queue.new
            @jobs << [block, answer]
            value, error = answer.pop
            return value unless error

            error.set_backtrace([*error.backtrace, *caller(1)])
            raise error
          end

          # Whether this thread is one of them.
          def here?
            Thread.current.thread_variable_get(HELPER) ? true : false
          end

          private

          def start
            @mutex.synchronize { @idle += 1 }
            Thread.new do
              Thread.current.thread_variable_set(HELPER, true)
              Thread.current.name = "paceline outside"
              loop { work(*@jobs.pop) }
            end
          end

          # There is always one that waits, since only one of them can start another.
          def work(block, answer)
            start if @mutex.synchronize { (@idle -= 1).zero? }
            answer << [Guards.unguarded(&block), nil]
          rescue Exception => e
            answer << [nil, e]
          ensure
            @mutex.synchronize { @idle += 1 }
          end
        end
      end
    end
  end
end
