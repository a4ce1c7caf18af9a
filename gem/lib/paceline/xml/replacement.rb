# frozen_string_literal: true

module Paceline
  module XML
    # Puts Paceline's classes in the place of the gem builder's: code that says Builder::XmlMarkup, and what subclasses it from now on,
    # gets them. Classes that were made from Builder's before stay what they are. May be called again. Returns Builder::XmlMarkup.
    def self.replace_builder!
      begin
        require "builder"
      rescue LoadError
        # Without the gem there is nothing but the names to give.
        Object.const_set(:Builder, Module.new) unless defined?(::Builder)
      end
      replace_builder_classes
      replace_xchar
      ::Builder::XmlMarkup
    end

    class << self
      private

      def replace_builder_classes
        Base.cache_method_calls = ::Builder::XmlBase.cache_method_calls if ::Builder.const_defined?(:XmlBase, false)
        { XmlBase: Base, XmlMarkup: Builder, XmlEvents: Events, IllegalBlockError: IllegalBlockError }.each do |name, ours|
          next if ::Builder.const_defined?(name, false) && ::Builder.const_get(name, false).equal?(ours)

          ::Builder.send(:remove_const, name) if ::Builder.const_defined?(name, false)
          ::Builder.const_set(name, ours)
        end
        ::Builder.const_set(:BlankSlate, ::BasicObject) unless ::Builder.const_defined?(:BlankSlate, false)
      end

      def replace_xchar
        return ::Builder.const_set(:XChar, Characters) unless ::Builder.const_defined?(:XChar, false)

        encode = ::Builder::XChar.method(:encode)
        return if encode.owner.equal?(Characters.singleton_class) || encode.source_location&.first == __FILE__

        ::Builder::XChar.singleton_class.send(:remove_method, :encode)
        ::Builder::XChar.define_singleton_method(:encode) { |string| Characters.encode(string) }
      end
    end
  end
end
