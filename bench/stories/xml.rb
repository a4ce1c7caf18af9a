# frozen_string_literal: true

# The story of a Builder template over HTTP: the same document by Builder, Nokogiri, Ox and Paceline, and the same body read by three backends of XmlMini, with the
# request without a body that the published comparison was made with.
require_relative "../xml/page"
require_relative "../xml/parsers"

module Bench
  module Stories
    class XmlStory < Story
      BASELINE = "Builder"
      WORDS = StoryWords.new(
        name: "xml", title: "A Builder template over HTTP",
        slow: "A Rails action that renders XML with Builder spends its time in Ruby: a method_missing, a block and an escaped string for each element, thousands of them for a feed.",
        published: "Published: ab -c 1 -n 200 on a template; Builder 140.7 ms a request, Nokogiri 31.3 ms. A second post changed the backend of XmlMini and saw no difference: its requests had no body to parse.",
        change: ["config/application.rb", "config.paceline.xml = true"],
        shown: ["54 KB", BASELINE, "Paceline"]
      )
      # Name, and what the application calls it.
      WRITERS = { BASELINE => "builder", "Nokogiri" => "nokogiri", "Ox" => "ox", "Paceline" => "paceline" }.freeze
      DOCUMENTS = { "small" => "216 bytes of XML", "feed" => "54 KB of XML" }.freeze
      BACKENDS = %w[REXML Nokogiri Paceline].freeze

      def self.packages = %w[ruby-nokogiri ruby-ox]

      private

      def make_sections
        { "writers" => contest(with: { connections: [1] }, app: -> { app({}) }, entries: writers, baseline: BASELINE, main: "p50",
                               note: "One client that sends the next request when it has the answer. All by Paceline's server with #{Servers::WORKERS} workers, but for the last one."),
          "XmlMini" => contest(with: { connections: [1] }, app: -> { app({}) }, entries: backends, baseline: BACKENDS[0], main: "p50",
                               note: "ActiveSupport::XmlMini.backend. Only a request that has a body to parse says something about it.") }
      end

      def writers
        paceline, puma = Servers.named(%w[paceline puma])
        WRITERS.map { |name, way| [StoryContest.named(paceline, name), documents, app("BENCH_XML" => way)] } << [StoryContest.named(puma, "Builder, by Puma"), documents, app({})]
      end

      # Each must give the bytes of the first one.
      def documents
        @documents ||= DOCUMENTS.map { |name, title| Scenarios.new(name, title, :xml, [Kind.new(name, "/documents/#{name}.xml", contains: "<?xml")]) }
      end

      def backends
        paceline, = Servers.named(%w[paceline])
        BACKENDS.map { |name| [StoryContest.named(paceline, name), requests, app("BENCH_XML_MINI" => name)] }
      end

      def requests
        @requests ||= [Scenarios.new("without", "XmlMini and a request without a body, as in the post", :xml, [Kind.new("without", "/parse", expected: "nothing\n")]),
                       Scenarios.new("payload", "XmlMini and a request with 56 KB of XML", :xml, [Kind.new("payload", "/parse", method: "POST", body: XmlParsers.document, expected: "#{XmlParsers::RECORDS}\n")])]
      end

      def app(environment) = App.new(name: :xml, directory: XmlPage::APP, environment: environment)
    end
  end
end
