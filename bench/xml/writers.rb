# frozen_string_literal: true

# The writers that are compared on the three documents. Each is made in a process of its own and loads there what it needs.
require_relative "page"

module Bench
  # Every one gives for a document's name a proc that writes it once and returns it as a String.
  module XmlWriters
    # Whatever speaks Builder's language, with the templates of XmlPage. The block makes a builder.
    class Speaking
      def initialize(&build)
        @build = build
      end

      def work(name)
        template = XmlPage.new(name).method(name)
        build = @build
        lambda do
          xml = build.call
          template.call(xml)
          xml.target!
        end
      end
    end

    # What Ruby's dispatch alone costs, whoever writes: method_missing and blocks, and not a byte.
    class Silent < BasicObject
      def method_missing(_name, _first = nil, _second = nil)
        yield self if ::Kernel.block_given?
        self
      end

      def target! = ""
    end

    module_function

    def make(name) = send(name)

    def builder
      require "builder"
      Speaking.new { ::Builder::XmlMarkup.new(indent: XmlPage::INDENT) }
    end

    def paceline
      $LOAD_PATH.unshift(File.expand_path("../../gem/lib", __dir__))
      require "paceline/xml"
      raise LoadError, "the native part is not built: run bin/native" unless ENV["PACELINE_NATIVE"] == "0" || Paceline::Native

      Speaking.new { ::Paceline::XML::Builder.new(indent: XmlPage::INDENT) }
    end

    # The process has PACELINE_NATIVE=0.
    def pure = paceline

    def nokogiri
      require_relative "nokogiri"
      XmlNokogiri.new
    end

    def ox
      require_relative "ox"
      XmlOx.new
    end

    def libxml
      require_relative "libxml"
      XmlLibxml.new
    end

    def erb
      require_relative "erb"
      XmlErb.new
    end

    def floor
      require_relative "floor"
      XmlFloor.new
    end

    def dispatch = Speaking.new { Silent.new }
  end
end
