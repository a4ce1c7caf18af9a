# frozen_string_literal: true

# The classes below a class that may not be loaded yet, for a guard that each of them needs. It looks for them only after one has appeared: a look may walk
# the whole heap (ActiveSupport 6.1's `subclasses`), which leaves the processor's caches cold, and the next request would take longer than a visitor's.
module Paceline
  module Server
    module Shadow
      class Guards
        class Descendants
          # How often it looks when there is a new one: at the first look, another thread may still be defining it.
          LOOKS = 2
          private_constant :LOOKS

          # `name`: of the class that they are below.
          def initialize(name)
            @name = name
            @mutex = Thread::Mutex.new
            @looks = LOOKS
          end

          # Calls the block with each of them, those above others first, if there may be new ones.
          def settle(&block)
            return if @looks.zero? || !Guards.loaded?(@name)

            @mutex.synchronize do
              # Another thread may just have looked.
              next if @looks.zero?

              watch unless @watched
              @looks -= 1
              below(Object.const_get(@name)).each(&block)
            end
          end

          private

          # A class that has an `inherited` of its own without `super` hides those below it.
          def watch
            @watched = true
            appeared = -> { @looks = LOOKS }
            watching = Module.new do
              define_method(:inherited) do |subclass|
                super(subclass)
                appeared.call
              end
              private :inherited
            end
            Object.const_get(@name).singleton_class.prepend(watching)
          end

          def below(parent)
            parent.subclasses.flat_map { |one| [one, *below(one)] }
          end
        end
      end
    end
  end
end
