# frozen_string_literal: true

# `bin/bench outbound`: a page that makes fifteen HTTPS calls, by Paceline's ways beside other clients of Ruby: on loopback and over a wire with a delay, in fresh
# processes, in newborn workers, and by many workers. Sections: local, delayed, pages, workers; all, if none is named.
require_relative "lib/section_command"
require_relative "outbound/contest"
require_relative "outbound/pages"
require_relative "outbound/report"
require_relative "outbound/ways"
require_relative "outbound/workers"

module Bench
  class Outbound < SectionCommand
    Options = Struct.new(:ways, :rounds, :delay_ms, :congestion, :calls, :realtime, :output, keyword_init: true)
    CALLED = "outbound"
    SECTIONS = %w[local delayed pages workers].freeze
    PACKAGES = %w[ruby-faraday ruby-net-http-persistent ruby-excon ruby-typhoeus libcurl4 openssl nginx].freeze
    REPORT = OutboundReport
    UNMEASURED = [OutboundPlaces::Delayed::Failed].freeze

    private

    def defaults = Options.new(ways: OutboundWays.all.map(&:name), rounds: nil, delay_ms: 30.0, calls: 10_000, realtime: false, output: RESULTS)
    def check = OutboundWays.named(@options.ways)

    def prepare
      super
      processes
    end

    def section(name, told)
      case name
      when "local" then OutboundContest.new(local, ways, processes, rounds: @options.rounds || 5, warm: 10, slow: 3, together: 10, &told)
      when "delayed" then OutboundContest.new(delayed, ways, processes, rounds: @options.rounds || 3, warm: 2, slow: 1, together: 10, &told)
      when "pages" then OutboundPages.new(delayed, ways(OutboundPages::WAYS), processes, rounds: @options.rounds || 3, warm: 2, together: 10, &told)
      else OutboundWorkers.new(local, ways(OutboundWorkers::WAYS), processes, calls: @options.calls, &told)
      end
    end

    def local = OutboundPlaces::Local.new(first: @options.realtime)
    def delayed = OutboundPlaces::Delayed.new(@options.delay_ms, first: @options.realtime, congestion: @options.congestion)
    def ways(some = @options.ways) = OutboundWays.named(@options.ways & some)

    def describe(it)
      it.separator "\nWays:"
      OutboundWays.all.each { |way| it.separator format("    %-18s %s", way.name, way.title) }
      it.separator "\nOptions:"
      it.on("--quick", "One round, 1,500 calls over the workers; the result goes to tmp/bench/results") do
        @options.rounds, @options.calls, @options.output = 1, 1500, QUICK
      end
      it.on("--ways A,B", Array, "Only these") { |names| @options.ways = names }
      it.on("--rounds N", Integer, "In which all take turns (5; with a delay 3)") { |n| @options.rounds = n }
      it.on("--delay MS", Float, "Of the wire, there and back (30)") { |n| @options.delay_ms = n }
      it.on("--congestion NAME", "How TCP controls it on the wire, as cubic (as the machine does)") { |name| @options.congestion = name }
      it.on("--calls N", Integer, "Over the workers (10,000)") { |n| @options.calls = n }
      it.on("--realtime", "What is measured does not wait for the processor while others work") { @options.realtime = true }
    end
  end
end

Bench::Invocation.of_command { Bench::Outbound.new(ARGV).run }
