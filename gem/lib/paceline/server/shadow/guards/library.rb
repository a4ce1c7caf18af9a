# frozen_string_literal: true

# A guard that is one module before one class of a library. It loads nothing: it waits until the class has the method that the guard is for.
module Paceline
  module Server
    module Shadow
      class Guards
        class Library
          # `name`: of the class; `guard`: the module; `method`: what it guards, an instance method, or with `singleton` one of the class itself.
          def initialize(name, guard, method:, singleton: false)
            @name = name
            @guard = guard
            @method = method
            @singleton = singleton
          end

          # A class is known before all of its methods are: where files are loaded within its definition.
          def there?
            Guards.loaded?(@name) && (target.method_defined?(@method) || target.private_method_defined?(@method))
          end

          def install
            target.prepend(@guard)
          end

          private

          def target
            constant = Object.const_get(@name)
            @singleton ? constant.singleton_class : constant
          end
        end
      end
    end
  end
end
