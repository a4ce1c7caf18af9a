# frozen_string_literal: true

# What `bin/bench xml` compares with what: the ways of each section, its documents, and who the others are measured by.
require_relative "contest"

module Bench
  module XmlSections
    Way = XmlContest::Way
    NO_NATIVE = { "PACELINE_NATIVE" => "0" }.freeze

    WRITERS = [
      Way.new(name: "builder", title: "Builder::XmlMarkup"),
      Way.new(name: "nokogiri", title: "Nokogiri::XML::Builder, the same template"),
      Way.new(name: "ox", title: "Ox::Builder, by hand"),
      Way.new(name: "libxml", title: "LibXML::XML::Writer, by hand"),
      Way.new(name: "erb", title: "ERB with CGI.escapeHTML"),
      Way.new(name: "paceline", title: "Paceline::XML::Builder, native"),
      Way.new(name: "pure", title: "Paceline::XML::Builder in Ruby", environment: NO_NATIVE),
      Way.new(name: "floor", title: "constant strings and CGI.escapeHTML"),
      Way.new(name: "dispatch", title: "method_missing and blocks alone, writing nothing", mute: true)
    ].freeze
    VIEWS = [
      Way.new(name: "builder", title: "ActionView as it comes"),
      Way.new(name: "paceline", title: "with Paceline's builder")
    ].freeze
    PARSING = %w[REXML Nokogiri NokogiriSAX LibXML LibXMLSAX Paceline].map { |name| Way.new(name: name, title: "XmlMini.backend = #{name.inspect}") }.freeze

    # Besides the three documents the views have one that is empty: what ActionView itself costs.
    EMPTY = "empty"
    DOCUMENTS = %w[small feed board].freeze

    module_function

    def contest(name, options, &told)
      ways, documents, baseline =
        case name
        when "writers" then [WRITERS, DOCUMENTS, "builder"]
        when "views" then [VIEWS, [EMPTY, *DOCUMENTS], "builder"]
        when "parsing" then [PARSING, %w[beers], "LibXML"]
        end
      XmlContest.new(name, ways, documents, baseline: baseline, options: options, &told)
    end
  end
end
