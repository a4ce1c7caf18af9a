# frozen_string_literal: true

# `bin/bench pstore`: what a transaction of one record costs, in Paceline's PStore and in others, from one record to a million, by one process and by
# several; how long it takes to take over a file of Ruby's; and what a whole request costs. Sections: stores, import, requests; all, if none is named.
require "optparse"
require_relative "lib/invocation"
require_relative "lib/machine"
require_relative "lib/progress"
require_relative "pstore/contest"
require_relative "pstore/import"
require_relative "pstore/report"
require_relative "pstore/requests"

module Bench
  class PStore
    Options = Struct.new(:rounds, :seconds, :request_seconds, :records, :processes, :ways, :clients, :sessions, :place, :output, keyword_init: true)
    SECTIONS = %w[stores import requests].freeze
    PACKAGES = %w[redis-server ruby-redis ruby-tokyocabinet].freeze

    def initialize(arguments)
      @command = ["bin/bench pstore", *arguments].join(" ")
      @options = Options.new(rounds: 3, seconds: 0.2, request_seconds: 2.0, records: [1, 100, 1_000, 10_000, 1_000_000], processes: 4, ways: PStoreWays::ALL,
                             clients: 10, sessions: 1_000, place: File.join(Servers::HERE, "tmp/bench"), output: File.join(Servers::HERE, "bench/results"))
      rest = parser.parse(arguments)
      @names = rest.empty? ? SECTIONS : rest
      raise ArgumentError, "there are #{SECTIONS.join(", ")}" unless (@names - SECTIONS).empty?
      raise ArgumentError, "there can't be more than 16 sizes" if @options.records.size > 16
      raise ArgumentError, "fewer sessions than clients" if @options.sessions < @options.clients
    rescue OptionParser::ParseError, ArgumentError => e
      warn "bin/bench pstore: #{e.message}"
      exit 64
    end

    def run
      Invocation.need_paceline("pstore") if @names.include?("requests")
      processes = Processes.new
      processes.adopt_orphans
      Invocation.interrupt_by_signals
      FileUtils.mkdir_p(@options.place)
      facts, versions, found = Machine.facts, Machine.versions(PACKAGES), {}
      sections = @names.to_h { |name| [name, section(name, processes)] }
      @progress = Progress.new(sections.values.sum(&:steps))
      report = PStoreReport.new(found, facts: facts, versions: versions, options: @options, command: @command, clock: @progress)
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

    def section(name, processes)
      told = ->(what, done) { @progress.told(name, what, done) }
      case name
      when "stores" then PStoreContest.new(@options.ways, @options, @options.place, &told)
      when "import" then PStoreImport.new(@options, @options.place, &told)
      when "requests" then PStoreRequests.new(processes, @options, @options.place, &told)
      end
    end

    def parser
      OptionParser.new do |it|
        it.banner = "Usage: bin/bench pstore [options] [#{SECTIONS.join(" ")}]"
        it.separator "\nWays:"
        PStoreWays::ALL.each { |way| it.separator format("    %-16s %s", way.name, way.title) }
        it.separator "\nOptions:"
        it.on("--quick", "Two short rounds, up to 1,000 records; the result goes to tmp/bench/results") do
          @options.rounds, @options.seconds, @options.request_seconds, @options.records = 2, 0.1, 1.0, [1, 1_000]
          @options.output = File.join(Servers::HERE, "tmp/bench/results")
        end
        it.on("--rounds N", Integer, "In which all take turns (3)") { |n| @options.rounds = n }
        it.on("--seconds N", Float, "Of each measurement of a store (0.2)") { |n| @options.seconds = n }
        it.on("--request-seconds N", Float, "Of each load of requests (2)") { |n| @options.request_seconds = n }
        it.on("--records N,N", Array, "Records in the stores (1,100,1000,10000,1000000)") { |list| @options.records = list.map { |n| Integer(n) } }
        it.on("--processes N", Integer, "At once, besides one (4)") { |n| @options.processes = n }
        it.on("--ways A,B", Array, "Only these") { |names| @options.ways = PStoreWays.named(names) }
        it.on("--clients N", Integer, "Connections, of whole requests (10)") { |n| @options.clients = n }
        it.on("--sessions N", Integer, "Visitors, of whole requests (1000)") { |n| @options.sessions = n }
        it.on("--place DIR", "Where the stores are meanwhile, on the disk that is meant (tmp/bench)") { |directory| @options.place = File.expand_path(directory) }
        it.on("--output DIR", "Where the JSON and Markdown go (bench/results)") { |directory| @options.output = directory }
        it.on_tail("-h", "--help", "This text") do
          puts it
          exit
        end
      end
    end
  end
end

Bench::Invocation.of_command { Bench::PStore.new(ARGV).run }
