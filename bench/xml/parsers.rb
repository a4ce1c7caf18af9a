# frozen_string_literal: true

# Hash.from_xml by the backends of ActiveSupport's XmlMini, on one document as `to_xml` writes them.
require_relative "../apps/xml/documents"

module Bench
  class XmlParsers
    RECORDS = 110

    def self.make(backend)
      require "active_support"
      require "active_support/core_ext/hash/conversions"
      $LOAD_PATH.unshift(File.expand_path("../../gem/lib", __dir__)) if backend == "Paceline"
      ActiveSupport::XmlMini.backend = backend
      new
    end

    # The backends' answers are compared as text.
    def work(_name)
      document = XmlParsers.document
      -> { Hash.from_xml(document) }
    end

    # Nested, with types, attributes, references, UTF-8 and empty elements.
    def self.document
      beers = Documents.feed.entries.first(RECORDS).each_with_index.map do |entry, i|
        <<~XML.gsub(/^/, "  ")
          <beer>
            <id type="integer">#{i}</id>
            <name>#{entry.title.gsub("&", "&amp;").gsub("<", "&lt;")}</name>
            <strength type="decimal">#{entry.strength.to_f}</strength>
            <sold-out type="boolean">#{i.odd?}</sold-out>
            <brewed-at type="dateTime">#{entry.updated}</brewed-at>
            <summary>#{entry.summary.gsub("&", "&amp;").gsub("<", "&lt;")}</summary>
            <award nil="true"/>
            <brewery country="#{i.even? ? "de" : "be"}">
              <name>#{entry.author.gsub("&", "&amp;")}</name>
              <styles type="array">
                <style>#{entry.style}</style>
                <style>beer</style>
              </styles>
            </brewery>
          </beer>
        XML
      end
      %(<?xml version="1.0" encoding="UTF-8"?>\n<beers type="array">\n#{beers.join}</beers>\n)
    end
  end
end
