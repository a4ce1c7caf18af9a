# frozen_string_literal: true

# The templates of bench/apps/xml as methods that take the builder, with the instance variables that Rails would give them. One source
# for everything that speaks Builder's language, so that no writer has a template to its advantage.
require_relative "../apps/xml/documents"

module Bench
  class XmlPage
    APP = File.expand_path("../apps/xml", __dir__)
    VIEWS = File.join(APP, "app/views")
    # As Rails' own handler.
    INDENT = 2

    def self.path(name) = File.join(VIEWS, "documents/#{name}.xml.builder")

    def self.source(name) = File.read(path(name))

    Documents::NAMES.each { |name| class_eval("def #{name}(xml)\n#{source(name)}\nend", path(name), 0) }

    def initialize(name)
      Documents.assigns(name).each { |variable, value| instance_variable_set("@#{variable}", value) }
    end
  end
end
