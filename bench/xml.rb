# frozen_string_literal: true

# `bin/bench xml`: what writing and reading XML costs, beside other writers and readers: alone, as a view of Rails, and as a whole response.
# Sections: writers, views, responses, parsing; all, if none is named.
require "optparse"
require_relative "lib/invocation"
require_relative "lib/machine"
require_relative "lib/progress"
require_relative "xml/report"
require_relative "xml/responses"
require_relative "xml/sections"

module Bench
  class Xml
    Options = Struct.new(:rounds, :seconds, :clients, :output, keyword_init: true)
    SECTIONS = %w[writers views responses parsing].freeze
    PACKAGES = %w[ruby-nokogiri ruby-ox ruby-libxml].freeze

    def initialize(arguments)
      @command = ["bin/bench xml", *arguments].join(" ")
      @options = Options.new(rounds: 7, seconds: 0.3, clients: 10, output: File.join(Servers::HERE, "bench/results"))
      rest = parser.parse(arguments)
      @names = rest.empty? ? SECTIONS : rest
      raise ArgumentError, "there are #{SECTIONS.join(", ")}" unless (@names - SECTIONS).empty?
    rescue OptionParser::ParseError, ArgumentError => e
      warn "bin/bench xml: #{e.message}"
      exit 64
    end

    def run
      Invocation.need_paceline("xml") if @names.include?("responses")
      Invocation.interrupt_by_signals
      facts, versions, found = Machine.facts, Machine.versions(PACKAGES), {}
      sections = @names.to_h { |name| [name, section(name)] }
      @progress = Progress.new(sections.values.sum(&:steps))
      report = XmlReport.new(found, facts: facts, versions: versions, options: @options, command: @command, clock: @progress)
      base = nil
      sections.each do |name, section|
        found[name] = section.run
        # What was measured is there also when a later section is interrupted.
        base = report.write(@options.output)
      end
      @progress.say ""
      puts report.markdown
      puts "\nWritten to #{base}.md and .json"
    end

    private

    def section(name)
      return XmlResponses.new(@options) { |what, done| @progress.told(name, what, done) } if name == "responses"

      XmlSections.contest(name, @options) { |what, done| @progress.told(name, what, done) }
    end

    def parser
      OptionParser.new do |it|
        it.banner = "Usage: bin/bench xml [options] [#{SECTIONS.join(" ")}]"
        it.separator "\nWriters:"
        XmlSections::WRITERS.each { |way| it.separator format("    %-10s %s", way.name, way.title) }
        it.separator "\nOptions:"
        it.on("--quick", "Two short rounds; the result goes to tmp/bench/results") do
          @options.rounds, @options.seconds, @options.output = 2, 0.1, File.join(Servers::HERE, "tmp/bench/results")
        end
        it.on("--rounds N", Integer, "In which all take turns (7)") { |n| @options.rounds = n }
        it.on("--seconds N", Float, "Of each measurement (0.3; a response's load at least 1)") { |n| @options.seconds = n }
        it.on("--clients N", Integer, "At once, besides one at a time (10)") { |n| @options.clients = n }
        it.on("--output DIR", "Where the JSON and Markdown go (bench/results)") { |directory| @options.output = directory }
        it.on_tail("-h", "--help", "This text") do
          puts it
          exit
        end
      end
    end
  end
end

Bench::Invocation.of_command { Bench::Xml.new(ARGV).run }
