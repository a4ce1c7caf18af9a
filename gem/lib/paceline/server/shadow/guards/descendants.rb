# frozen_string_literal: true

# The classes below a class, for a guard that each of them needs. It looks for them only after one has appeared: a look may walk the whole heap
# (ActiveSupport 6.1's `subclasses`), which leaves the processor's caches cold, and the next request would take longer than a visitor's.
module Paceline
  module Server
    module Shadow
      class Guards
        class Descendants
          def initialize(parent)
            @parent = parent
            @changed = true
            watch
          end

          # Yields all of them, if there are others than the last time.
          def each_after_change(&block)
            return unless @changed

            @changed = false
            below(@parent).each(&block)
          end

          private

          # A class that has an `inherited` of its own without `super` hides those below it.
          def watch
            appeared = -> { @changed = true }
            watching = Module.new do
              define_method(:inherited) do |subclass|
                super(subclass)
                appeared.call
              end
              private :inherited
            end
            @parent.singleton_class.prepend(watching)
          end

          def below(parent)
            parent.subclasses.flat_map { |one| [one, *below(one)] }
          end
        end
      end
    end
  end
end
