# frozen_string_literal: true

module Paceline
  module XML
    module Template
      # A local variable: `builder` if it always is the template's own. `stands_for` is another variable that the compiled template names
      # in its place.
      Variable = Struct.new(:name, :builder, :uses, :stands_for) do
        def text
          stands_for ? stands_for.text : name
        end
      end

      # A block's scope, or the template's, and what was found in it.
      class Scope
        attr_reader :locals, :declared

        def initialize(parent = nil)
          @parent = parent
          @variables = {}
          @locals = []
          @declared = []
          @fixed = false
        end

        def lookup(name)
          @variables[name] || @parent&.lookup(name)
        end

        def own?(name)
          @variables.key?(name)
        end

        # A parameter, or a variable that is there from the start.
        def declare(name, builder: false)
          declared_below(name)
          @variables[name] = Variable.new(name, builder, 0)
        end

        # A variable that is assigned here; new, if none of this name can be seen.
        def assign(name)
          return if lookup(name)

          declare(name)
          @locals << name
        end

        # The statements of this scope can't move into the one around it.
        def fix
          @fixed = true
        end

        # Nor those of any around it.
        def fix_all
          fix
          @parent&.fix_all
        end

        def fixed?
          @fixed
        end

        def declared_below(name)
          @declared << name
          @parent&.declared_below(name)
        end
      end

      # Decides whether a block given to the builder may become statements of the scope around it.
      class Inlining
        def initialize(source)
          @source = source.b
        end

        # `call` is done on the Variable `receiver`; its block has the Scope `scope` and, if it has a parameter, the Variable `parameter`.
        def allowed?(call, receiver, scope, parameter)
          block = call.block
          # A variable of the block's own would be seen outside, if only by an error's suggestions.
          return false if !block.plain || block.rescues || scope.fixed? || scope.locals.any?

          parameter.nil? || parameter.name == receiver.name || replaceable?(block, receiver, scope, parameter)
        end

        private

        # Wherever the parameter stands it is the receiver of a compiled call, and the other name means there what it means outside.
        def replaceable?(block, receiver, scope, parameter)
          parameter.builder && count(parameter.name, block.start, block.finish) == parameter.uses + 1 &&
            !scope.declared.include?(receiver.text)
        end

        def count(name, start, finish)
          @source.byteslice(start...finish).scan(/(?<![\w\x80-\xFF])#{Regexp.escape(name.b)}(?![\w\x80-\xFF])/n).size
        end
      end
    end
  end
end
