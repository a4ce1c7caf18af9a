# frozen_string_literal: true

# Methods that report a call and then do what they did. Those that the class does not have stay missing. They are called far more often than
# they report, so what they do without a recording is as little as there can be.
module Paceline
  module AutoCache
    module Hooks
      # `told` gets the receiver, the name, the arguments and those with a name, and only while a request is recorded.
      def self.on(target, names, &told)
        known = names.select { |name| target.method_defined?(name) || target.private_method_defined?(name) }
        return within(target, known, told) unless target == Object

        # All that is looked for in Object's ancestors (`is_a?`) would be looked for in one more module. What is Kernel's can be Object's.
        own, inherited = known.partition { |name| target.method_defined?(name, false) || target.private_method_defined?(name, false) }
        define(target, target, inherited, told)
        within(target, own, told) if own.any?
      end

      # The same for methods of the class itself.
      def self.on_class(target, names, &)
        on(target.singleton_class, names, &)
      end

      def self.within(target, names, told)
        target.prepend(Module.new { Hooks.define(self, target, names, told) })
      end
      private_class_method :within

      # In OWNER, as private as they are in TARGET. A method of a block, or one that takes its arguments apart, would take twice as long.
      def self.define(owner, target, names, told)
        named = :"PACELINE_#{told.object_id}"
        owner.const_set(named, ->(receiver, name, *arguments, **options, &_) { told.call(receiver, name, arguments, options) })
        owner.private_constant(named)
        names.each do |name|
          hidden = target.private_method_defined?(name)
          owner.class_eval(<<~RUBY, __FILE__, __LINE__ + 1)
            def #{name}(...)                                                       # def stat(...)
              #{named}.call(self, :"#{name}", ...) if ::Paceline::AutoCache.recording  #   PACELINE_8.call(self, :"stat", ...) if ::Paceline::AutoCache.recording
              super(...)                                                           #   super(...)
            end                                                                    # end
          RUBY
          owner.send(:private, name) if hidden
        end
      end
    end
  end
end
