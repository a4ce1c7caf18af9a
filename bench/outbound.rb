# frozen_string_literal: true

# `bin/bench outbound`: a page that makes fifteen HTTPS calls, by Paceline's ways beside other clients of Ruby: on loopback and over a wire with a delay, in fresh
# processes, in newborn workers, and by many workers. Sections: local, delayed, pages, workers; all, if none is named.
require "optparse"
require_relative "lib/invocation"
require_relative "lib/machine"
require_relative "outbound/contest"
require_relative "outbound/pages"
require_relative "outbound/report"
require_relative "outbound/ways"
require_relative "outbound/workers"
require_relative "lib/progress"

module Bench
  class Outbound
    Options = Struct.new(:ways, :rounds, :delay_ms, :congestion, :calls, :realtime, :output, keyword_init: true)
    SECTIONS = %w[local delayed pages workers].freeze
    PACKAGES = %w[ruby-faraday ruby-net-http-persistent ruby-excon ruby-typhoeus libcurl4 openssl nginx].freeze

    def initialize(arguments)
      @command = ["bin/bench outbound", *arguments].join(" ")
      @options = Options.new(ways: OutboundWays.all.map(&:name), rounds: nil, delay_ms: 30.0, calls: 10_000, realtime: false, output: File.join(Servers::HERE, "bench/results"))
      rest = parser.parse(arguments)
      @names = rest.empty? ? SECTIONS : rest
      raise ArgumentError, "there are #{SECTIONS.join(", ")}" unless (@names - SECTIONS).empty?

      OutboundWays.named(@options.ways)
    rescue OptionParser::ParseError, ArgumentError => e
      warn "bin/bench outbound: #{e.message}"
      exit 64
    end

    def run
      Invocation.need_paceline("outbound")
      @processes = Processes.new
      @processes.adopt_orphans
      Invocation.interrupt_by_signals
      facts, versions, found = Machine.facts, Machine.versions(PACKAGES), {}
      sections = @names.to_h { |name| [name, section(name)] }
      @progress = Progress.new(sections.values.sum(&:steps))
      report = OutboundReport.new(found, facts: facts, versions: versions, options: @options, command: @command, clock: @progress)
      base = nil
      sections.each do |name, section|
        found[name] = section.run
        # What was measured is there also when a later section is interrupted.
        base = report.write(@options.output)
      rescue OutboundPlaces::Delayed::Failed => e
        @progress.say "#{name}: not measured: #{e.message}"
        found.delete(name)
      end
      return unless base

      @progress.say ""
      puts report.markdown
      puts "\nWritten to #{base}.md and .json"
    end

    private

    def section(name)
      told = ->(what, done) { @progress.told(name, what, done) }
      case name
      when "local" then OutboundContest.new(local, ways, @processes, rounds: @options.rounds || 5, warm: 10, slow: 3, together: 10, &told)
      when "delayed" then OutboundContest.new(delayed, ways, @processes, rounds: @options.rounds || 3, warm: 2, slow: 1, together: 10, &told)
      when "pages" then OutboundPages.new(delayed, ways(OutboundPages::WAYS), @processes, rounds: @options.rounds || 3, warm: 2, together: 10, &told)
      else OutboundWorkers.new(local, ways(OutboundWorkers::WAYS), @processes, calls: @options.calls, &told)
      end
    end

    def local = OutboundPlaces::Local.new(first: @options.realtime)
    def delayed = OutboundPlaces::Delayed.new(@options.delay_ms, first: @options.realtime, congestion: @options.congestion)
    def ways(some = @options.ways) = OutboundWays.named(@options.ways & some)

    def parser
      OptionParser.new do |it|
        it.banner = "Usage: bin/bench outbound [options] [#{SECTIONS.join(" ")}]"
        it.separator "\nWays:"
        OutboundWays.all.each { |way| it.separator format("    %-18s %s", way.name, way.title) }
        it.separator "\nOptions:"
        it.on("--quick", "One round, 1,500 calls over the workers; the result goes to tmp/bench/results") do
          @options.rounds, @options.calls, @options.output = 1, 1500, File.join(Servers::HERE, "tmp/bench/results")
        end
        it.on("--ways A,B", Array, "Only these") { |names| @options.ways = names }
        it.on("--rounds N", Integer, "In which all take turns (5; with a delay 3)") { |n| @options.rounds = n }
        it.on("--delay MS", Float, "Of the wire, there and back (30)") { |n| @options.delay_ms = n }
        it.on("--congestion NAME", "How TCP controls it on the wire, as cubic (as the machine does)") { |name| @options.congestion = name }
        it.on("--calls N", Integer, "Over the workers (10,000)") { |n| @options.calls = n }
        it.on("--realtime", "What is measured does not wait for the processor while others work") { @options.realtime = true }
        it.on("--output DIR", "Where the JSON and Markdown go (bench/results)") { |directory| @options.output = directory }
        it.on_tail("-h", "--help", "This text") do
          puts it
          exit
        end
      end
    end
  end
end

Bench::Invocation.of_command { Bench::Outbound.new(ARGV).run }
