# frozen_string_literal: true

# `bin/bench scheduled`: what visitors notice of a sale that begins, with 214 pages of 20 ms each. Scheduled pages beside pages that expire in the cache at the
# second, as with a plugin of WordPress: in Paceline's own cache, and in Varnish before Puma if that is installed.
#
#   bin/bench scheduled [--pages 214] [--cost 20] [--rate 400] [--connections 100] [--rounds 5] [--output DIR]
require_relative "lib/contest_command"
require_relative "scheduled/contest"

module Bench
  class ScheduledBench < ContestCommand
    HEAD = ["server", "before: p50 ms", "p99", "across: p50 ms", "p99", "max", "x of scheduled", "CPU µs", "switches", "failed", "early", "late"].freeze

    private

    def processes = Processes.new

    def measure = ScheduledContest.new(@options, processes) { |what, done| warn what unless done }.run

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

    def figures(rows) = { "versions" => versions, **super }
  end
end

Bench::ScheduledBench.main("scheduled", pages: 214, cost: 20, rate: 400, connections: 100, rounds: 5)
