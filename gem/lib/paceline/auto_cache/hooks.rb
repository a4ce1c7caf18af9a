# frozen_string_literal: true

# Methods that report a call and then do what they did. Those that the class does not have stay missing. They are called far more often than
# they report, so what they do without a recording is as little as there can be; and while no request is recorded for a while, they are removed.
module Paceline
  module AutoCache
    module Hooks
      # Those that report nothing but reads: module, name, method, whether it is private.
      @reading = []
      @in_place = true

      class << self
        # These methods of OWNER are of use only while a request is recorded.
        def reading(owner, names = owner.instance_methods(false) + owner.private_instance_methods(false))
          names.each { |name| @reading << [owner, name, owner.instance_method(name), owner.private_method_defined?(name)] }
        end

        # Whether there is anything to remove. What YJIT has compiled would be compiled again each time, and its memory is bounded.
        def removable?
          @in_place && RUBY_ENGINE == "ruby" && !(defined?(RubyVM::YJIT.enabled?) && RubyVM::YJIT.enabled?)
        end

        # Not while a request is recorded, nor by two threads at once.
        def remove
          return unless @in_place

          @in_place = false
          # The application may have written another one over one of Object's.
          @removed = @reading.select { |owner, name, method,| has?(owner, name) && owner.instance_method(name) == method }
          @removed.each { |owner, name,| owner.send(:remove_method, name) }
        end

        # As they were, but for those that the application has written meanwhile.
        def restore
          return if @in_place

          @removed.each do |owner, name, method, hidden|
            next if has?(owner, name)

            owner.send(:define_method, name, method)
            owner.send(:private, name) if hidden
          end
          @in_place = true
        end

        private

        def has?(owner, name) = owner.method_defined?(name, false) || owner.private_method_defined?(name, false)
      end

      # `told` gets the receiver, the name, the arguments and those with a name, and only while a request is recorded.
      def self.on(target, names, &told)
        known = names.select { |name| target.method_defined?(name) || target.private_method_defined?(name) }
        return within(target, known, told) unless target == Object

        # All that is looked for in Object's ancestors (`is_a?`) would be looked for in one more module. What is Kernel's can be Object's.
        own, inherited = known.partition { |name| target.method_defined?(name, false) || target.private_method_defined?(name, false) }
        define(target, target, inherited, told)
        within(target, own, told) if own.any?
      end

      # Hooks methods of the class itself.
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
        reading(owner, names)
      end
    end
  end
end
