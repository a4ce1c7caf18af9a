# frozen_string_literal: true

# `bin/bench pstore`: what a transaction of one record costs, in Paceline's PStore and in others, from one record to a million, by one process and by
# several; how long it takes to take over a file of Ruby's; and what a whole request costs. Sections: stores, import, requests; all, if none is named.
require_relative "lib/section_command"
require_relative "pstore/contest"
require_relative "pstore/import"
require_relative "pstore/report"
require_relative "pstore/requests"

module Bench
  class PStore < SectionCommand
    Options = Struct.new(:rounds, :seconds, :request_seconds, :records, :processes, :ways, :clients, :sessions, :place, :output, keyword_init: true)
    CALLED = "pstore"
    SECTIONS = %w[stores import requests].freeze
    PACKAGES = %w[redis-server ruby-redis ruby-tokyocabinet].freeze
    REPORT = PStoreReport

    private

    def defaults
      Options.new(rounds: 3, seconds: 0.2, request_seconds: 2.0, records: [1, 100, 1_000, 10_000, 1_000_000], processes: 4, ways: PStoreWays::ALL,
                  clients: 10, sessions: 1_000, place: File.join(Servers::HERE, "tmp/bench"), output: RESULTS)
    end

    def check
      raise ArgumentError, "there can't be more than 16 sizes" if @options.records.size > 16
      raise ArgumentError, "fewer sessions than clients" if @options.sessions < @options.clients
    end

    def prepare
      super if @names.include?("requests")
      processes
      FileUtils.mkdir_p(@options.place)
    end

    def section(name, told)
      case name
      when "stores" then PStoreContest.new(@options.ways, @options, @options.place, &told)
      when "import" then PStoreImport.new(@options, @options.place, &told)
      when "requests" then PStoreRequests.new(processes, @options, @options.place, &told)
      end
    end

    def describe(it)
      it.separator "\nWays:"
      PStoreWays::ALL.each { |way| it.separator format("    %-16s %s", way.name, way.title) }
      it.separator "\nOptions:"
      it.on("--quick", "Two short rounds, up to 1,000 records; the result goes to tmp/bench/results") do
        @options.rounds, @options.seconds, @options.request_seconds, @options.records = 2, 0.1, 1.0, [1, 1_000]
        @options.output = QUICK
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
    end
  end
end

Bench::Invocation.of_command { Bench::PStore.new(ARGV).run }
