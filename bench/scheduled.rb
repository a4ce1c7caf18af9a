# frozen_string_literal: true

# `bin/bench scheduled`: what visitors notice of a sale that begins, with 214 pages of 20 ms each. Scheduled pages beside pages that expire in the cache at the
# second, as with a plugin of WordPress: in Paceline's own cache, and in Varnish before Puma if that is installed.
#
#   bin/bench scheduled [--pages 214] [--cost 20] [--rate 400] [--connections 100] [--rounds 5] [--output DIR]
require "fileutils"
require "json"
require "optparse"
require_relative "lib/arithmetic"
require_relative "lib/invocation"
require_relative "lib/machine"
require_relative "lib/table"
require_relative "scheduled/contest"

module Bench
  class ScheduledBench
    include Table

    HEAD = ["server", "before: p50 ms", "p99", "across: p50 ms", "p99", "max", "x of scheduled", "CPU µs", "switches", "failed", "early", "late"].freeze

    def initialize(options)
      @options = options
    end

    def run
      facts = Machine.facts
      conclude(facts, ScheduledContest.new(@options, Processes.new) { |what, done| warn what unless done }.run)
    end

    private

    # P99 across the sale as a multiple of that with scheduled pages, of each round.
    def ratios(rows, name)
      rows[name].zip(rows.values.first).map { |round, scheduled| round[:across][1] / scheduled[:across][1] }
    end

    def cells(rows, name)
      median = ->(&value) { Arithmetic.median(rows[name].map(&value)) }
      times = [[:quiet, 0], [:quiet, 1], [:across, 0], [:across, 1], [:across, 2]].map { |part, place| format("%.1f", median.call { |round| round[part][place] }) }
      multiple = ratios(rows, name)
      [name, *times, spread(Arithmetic.median(multiple), multiple.minmax), format("%.0f", median.call { |round| round[:cpu] }), format("%.2f", median.call { |round| round[:switches] }),
       *%i[failed early late].map { |key| rows[name].sum { |round| round[key] }.to_s }]
    end

    def page(facts, rows)
      <<~PAGE
        # #{@options[:command]}

        #{facts["date"]} · #{facts["processors"]} x #{facts["processor"]} · load before: #{facts["load_before"].join(" ")}

        A sale begins: #{@options[:pages]} pages change, each takes #{@options[:cost]} ms of a processor to render. #{@options[:rate]} requests a second at fixed times (open loop) on #{@options[:connections]}
        connections, #{ScheduledContest::BEFORE} s before and #{ScheduledContest::AFTER} s after. Expiry: the pages expire in the cache at that second. Before: until half a second before the sale. Across: from then on.
        X of scheduled: the p99 across, of each round; the median, the least and the most. CPU and context switches: of all processes of the server, for a request, from the
        time on at which all pages are in the cache: what is rendered ahead is in it. Failed: no answer of 200. Early: the new page before the sale. Late: the old one to a request that was sent 50 ms after it or later. Medians of #{@options[:rounds]} rounds; sums of the last three.

        #{align(HEAD, rows.keys.map { |name| cells(rows, name) }, texts: [0])}

        Versions: #{versions.map { |name, version| "#{name} #{version}" }.join(", ")}. #{facts["ruby"]}, Linux #{facts["kernel"]}.
      PAGE
    end

    def versions = Machine.versions(%w[puma varnish])

    def conclude(facts, rows)
      text = page(facts, rows)
      puts text
      base = File.join(@options[:output], "scheduled-#{Time.now.utc.strftime("%Y%m%d-%H%M%S")}")
      FileUtils.mkdir_p(@options[:output])
      File.write("#{base}.md", text)
      File.write("#{base}.json", "#{JSON.pretty_generate("command" => @options[:command], "machine" => facts, "versions" => versions, "results" => rows)}\n")
      puts "\nWritten to #{base}.md and .json"
    end
  end
end

options = { pages: 214, cost: 20, rate: 400, connections: 100, rounds: 5 }
command = ["bin/bench scheduled", *ARGV].join(" ")
output = File.join(Bench::Servers::HERE, "bench/results")
OptionParser.new do |parser|
  parser.banner = "bin/bench scheduled [options]"
  options.each_key { |key| parser.on("--#{key} N", Integer) { |value| options[key] = value } }
  parser.on("--output DIR") { |directory| output = directory }
end.parse!
options.update(command: command, output: output)
Bench::Invocation.need_paceline("scheduled")
Bench::Invocation.interrupt_by_signals
begin
  Bench::Invocation.of_command { Bench::ScheduledBench.new(options).run }
rescue Bench::RunningServer::Failed => e
  abort "bin/bench scheduled: #{e.message}"
end
