# frozen_string_literal: true

# `object.stub(:name, value) { }`: within the block the method returns the value, or what it returns when it is called. Minitest 5 brings it; Minitest 6 has left it to a gem.
begin
  require "minitest/mock"
rescue LoadError
  class Object
    def stub(name, value)
      own = singleton_class.method_defined?(name, false) || singleton_class.private_method_defined?(name, false)
      original = method(name)
      define_singleton_method(name) { |*arguments, **options, &block| value.respond_to?(:call) ? value.call(*arguments, **options, &block) : value }
      yield self
    ensure
      singleton_class.remove_method(name)
      define_singleton_method(name, original) if own
    end
  end
end
