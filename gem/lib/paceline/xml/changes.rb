# frozen_string_literal: true

module Paceline
  module XML
    # What others have defined on the builder's classes, so that the native part never goes past a method of theirs.
    module Changes
      # Methods that the others call on the way to the bytes: a class that overrides one gets the Ruby builder, which calls them all.
      HOOKS = %i[
        _escape _escape_attribute _newline _indent _nested_structures _text _special _start_tag _end_tag _insert_attributes _attr_value
        _ensure_no_block text! explicit_nil_handling? cache_method_call
      ].freeze
      # The bits of Builder.native_mode; xml_state.c has them too.
      OWN_HOOKS = 1
      OWN_METHODS = 2
      OWN_TAG = 4
      private_constant :HOOKS, :OWN_HOOKS, :OWN_METHODS, :OWN_TAG

      # For Base's singleton class.
      module Watch
        %i[method_added method_removed method_undefined].each do |event|
          define_method(event) do |name|
            super(name)
            Changes.note(self, name)
          end
        end

        %i[include prepend].each do |way|
          define_method(way) { |*modules| super(*modules).tap { Changes.note(self, nil) } }
        end
      end

      class << self
        # Grows with each change.
        attr_reader :epoch

        # From here on what is defined is others'.
        def watch
          @epoch = 0
          @reopened = [].freeze
          @ours = [Builder, *Builder.ancestors.take_while { |owner| !owner.equal?(BasicObject) }, BasicObject].uniq.freeze
          Base.singleton_class.prepend(Watch)
        end

        def note(owner, name)
          return if @ours.nil?

          @epoch += 1
          Native.forget_xml_mode
          return unless @ours.include?(owner)

          @reopened = [*@reopened, name].uniq.freeze
          Tags.remove_method(name) if name && Tags.method_defined?(name, false)
        end

        # What the native part must mind in a builder of this class.
        def native_mode_of(klass)
          # An own method_missing is asked for a tag's first use on each builder only, and that the Ruby builder keeps account of.
          return OWN_HOOKS if [*HOOKS, :method_missing].any? { |name| changed?(klass, name) }

          mode = 0
          mode |= OWN_METHODS if @reopened.any? || (klass.ancestors - @ours).any? { |owner| methods_of(owner).any? }
          mode |= OWN_TAG if changed?(klass, :tag!)
          mode
        end

        def hook?(name)
          HOOKS.include?(name) || name == :tag! || name == :method_missing
        end

        private

        def changed?(klass, name)
          @reopened.include?(name) || !@ours.include?(klass.instance_method(name).owner)
        rescue NameError
          true
        end

        def methods_of(owner)
          owner.instance_methods(false) + owner.private_instance_methods(false)
        end
      end
    end
    private_constant :Changes
  end
end
