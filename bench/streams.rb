# frozen_string_literal: true

# `bin/bench streams`: what open event streams cost the pages beside them, with Paceline and Puma: median and p99 of pages at a steady rate, and pages that never
# came. Falcon, whose streams cost a fiber, is no Debian package: PACELINE_FALCON of `bin/bench serve` names a checkout, and it is not measured here.
#
#   bin/bench streams [--rounds 5] [--seconds 5] [--rate 50] [--connections 10] [--most 500] [--output DIR]
require_relative "lib/contest_command"
require_relative "streams/contest"

module Bench
  class StreamsBench < ContestCommand
    HEAD = ["open streams", "server", "p50 ms", "p99 ms", "pages lost", "streams that spoke", "p99, x of no stream"].freeze

    private

    def measure = StreamsContest.new(@options, processes) { |what, done| warn what if done }.run

    def cells(server, streams, rows)
      rounds, quiet = rows[[server, streams]], rows[[server, 0]]
      figures = %i[p50 p99].map { |key| rounded(Arithmetic.median(rounds.map { |round| round[key] })) }
      lost = "#{rounds.sum { |round| round[:lost] }} of #{rounds.sum { |round| round[:asked] }}"
      ratios = rounds.zip(quiet).filter_map { |round, before| Arithmetic.ratio(round[:p99], before[:p99]) }
      [streams.to_s, server, *figures.map { |figure| figure.to_s.empty? ? "none" : figure }, lost, rounded(Arithmetic.median(rounds.map { |round| round[:open] })),
       ratios.empty? ? "" : spread(Arithmetic.median(ratios), ratios.minmax)]
    end

    def page(facts, rows)
      <<~PAGE
        # #{@options[:command]}

        #{facts["date"]} · #{facts["processors"]} x #{facts["processor"]} · load before: #{facts["load_before"].join(" ")}

        #{Servers::WORKERS} workers with #{Servers::THREADS} threads each; Paceline with `stream_threads = #{@options[:streams].max}`. Streams say something every 5 s. A page computes a
        little and sleeps 5 ms; #{@options[:rate]} of them a second at fixed times (open loop) for #{@options[:seconds]} s, on #{@options[:connections]} connections. Lost: not there after #{StreamsContest::PATIENCE} s. Streams that spoke:
        within #{StreamsContest::PATIENCE} s, before the first page. Percentiles are of the pages that came. Medians of #{@options[:rounds]} rounds in turn; ratios of each round: the median, the least and
        the most.

        #{align(HEAD, rows.keys.map { |server, streams| cells(server, streams, rows) }, texts: [1])}

        Versions: #{Machine.versions(%w[puma]).slice("paceline", "puma").map { |name, version| "#{name} #{version}" }.join(", ")}. #{facts["ruby"]}, Linux #{facts["kernel"]}.
      PAGE
    end

    def figures(rows)
      { "results" => rows.map { |(server, streams), rounds| { "server" => server, "streams" => streams, "rounds" => rounds } } }
    end
  end
end

Bench::StreamsBench.main("streams", rounds: 5, seconds: 5, rate: 50, connections: 10, most: 500) { |options| { streams: [0, 8, options[:most]] } }
