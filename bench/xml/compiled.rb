# frozen_string_literal: true

# The templates as paceline/xml/template compiles them, without Rails.
require "paceline/xml/template"
require_relative "page"

module Bench
  class XmlCompiled < XmlPage
    Documents::NAMES.each { |name| class_eval("def #{name}(xml)\n#{Paceline::XML::Template.compile(source(name))}\nend", path(name), 0) }
  end
end
