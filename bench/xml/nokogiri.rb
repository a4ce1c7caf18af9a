# frozen_string_literal: true

# Nokogiri::XML::Builder with the templates as they are: it speaks nearly the same language, but builds a tree first.
require "nokogiri"
require_relative "page"

module Bench
  class XmlNokogiri
    # Its declaration is written with the tree.
    class Builder < Nokogiri::XML::Builder
      def instruct!; end
    end

    def work(name)
      template = XmlPage.new(name).method(name)
      -> { Builder.new(encoding: "UTF-8") { |xml| template.call(xml) }.to_xml(indent: XmlPage::INDENT) }
    end
  end
end
