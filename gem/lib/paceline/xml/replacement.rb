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
      { XmlBase: Base, XmlMarkup: Builder, XmlEvents: Events, IllegalBlockError: IllegalBlockError }.each do |name, ours|
        next if ::Builder.const_defined?(name, false) && ::Builder.const_get(name, false).equal?(ours)

        ::Builder.send(:remove_const, name) if ::Builder.const_defined?(name, false)
        ::Builder.const_set(name, ours)
      end
      ::Builder.const_set(:XChar, Characters) unless ::Builder.const_defined?(:XChar, false)
      ::Builder::XChar.define_singleton_method(:encode) { |string| Characters.encode(string) } unless ::Builder::XChar.equal?(Characters)
      ::Builder::XmlMarkup
    end
  end
end
