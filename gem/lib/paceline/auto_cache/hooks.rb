# frozen_string_literal: true

# Methods that report a call and then do what they did. Those that the class does not have stay missing.
module Paceline
  module AutoCache
    module Hooks
      # `told` gets the receiver, the name, the arguments and those with a name, and only while a request is recorded.
      def self.on(target, names, &told)
        known = names.select { |name| target.method_defined?(name) || target.private_method_defined?(name) }
        hidden = known.select { |name| target.private_method_defined?(name) }
        target.prepend(Module.new do
          known.each do |name|
            define_method(name) do |*arguments, **options, &block|
              told.call(self, name, arguments, options) if AutoCache.recording
              super(*arguments, **options, &block)
            end
          end
          private(*hidden)
        end)
      end

      # The same for methods of the class itself.
      def self.on_class(target, names, &)
        on(target.singleton_class, names, &)
      end
    end
  end
end
