# frozen_string_literal: true

# `bin/bench xml`: what writing and reading XML costs, beside other writers and readers: alone, as a view of Rails, and as a whole response.
# Sections: writers, views, responses, parsing; all, if none is named.
require_relative "lib/section_command"
require_relative "xml/report"
require_relative "xml/responses"
require_relative "xml/sections"

module Bench
  class Xml < SectionCommand
    Options = Struct.new(:rounds, :seconds, :clients, :output, keyword_init: true)
    CALLED = "xml"
    SECTIONS = %w[writers views responses parsing].freeze
    PACKAGES = %w[ruby-nokogiri ruby-ox ruby-libxml].freeze
    REPORT = XmlReport

    private

    def defaults = Options.new(rounds: 7, seconds: 0.3, clients: 10, output: RESULTS)

    def prepare = (super if @names.include?("responses"))

    def section(name, told)
      name == "responses" ? XmlResponses.new(@options, &told) : XmlSections.contest(name, @options, &told)
    end

    def describe(it)
      it.separator "\nWriters:"
      XmlSections::WRITERS.each { |way| it.separator format("    %-10s %s", way.name, way.title) }
      it.separator "\nOptions:"
      it.on("--quick", "Two short rounds; the result goes to tmp/bench/results") do
        @options.rounds, @options.seconds, @options.output = 2, 0.1, QUICK
      end
      it.on("--rounds N", Integer, "In which all take turns (7)") { |n| @options.rounds = n }
      it.on("--seconds N", Float, "Of each measurement (0.3; a response's load at least 1)") { |n| @options.seconds = n }
      it.on("--clients N", Integer, "At once, besides one at a time (10)") { |n| @options.clients = n }
    end
  end
end

Bench::Invocation.of_command { Bench::Xml.new(ARGV).run }
