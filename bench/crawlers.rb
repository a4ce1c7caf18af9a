# frozen_string_literal: true

# `bin/bench crawlers`: what visitors notice of a crawler that asks for more than the machine can do: with `crawlers = "last"`, without it, and on Puma.
#
#   bin/bench crawlers [--visitors 20] [--rate 10] [--crawler 100] [--cost 20] [--wait 10] [--seconds 20] [--rounds 5] [--output DIR]
require_relative "lib/contest_command"
require_relative "crawlers/contest"

module Bench
  class CrawlersBench < ContestCommand
    HEAD = ["server", "alone: p50 ms", "p99", "with crawler: p50 ms", "p99", "p99, x of alone", "lost", "crawled/s", "refused/s"].freeze

    private

    def measure = CrawlersContest.new(@options, processes) { |what, done| warn what if done }.run

    def cells(rounds, name)
      median = ->(&value) { Arithmetic.median(rounds.map(&value)) }
      times = [[:alone, 0], [:alone, 1], [:beside, 0], [:beside, 1]].map { |part, place| format("%.1f", median.call { |round| round[part][place] }) }
      ratios = rounds.map { |round| round[:beside][1] / round[:alone][1] }
      [name, *times, spread(Arithmetic.median(ratios), ratios.minmax), rounds.sum { |round| round[:lost] }.to_s,
       *%i[crawled refused].map { |key| rounded(median.call { |round| round[key] }) }]
    end

    def page(facts, rows)
      <<~PAGE
        # #{@options[:command]}

        #{facts["date"]} · #{facts["processors"]} x #{facts["processor"]} · load before: #{facts["load_before"].join(" ")}

        Pages take #{@options[:cost]} ms of a processor and wait for #{@options[:wait]} ms. #{@options[:visitors]} visitors send #{@options[:rate]} requests a second together, at fixed times, for #{@options[:seconds]} s; then
        they do so again beside a crawler that sends #{@options[:crawler]} requests a second with a user agent that says so, on as many connections. Times are those of visitors, from the time at which
        a request was due. #{Servers::WORKERS} workers with #{Servers::THREADS} threads. X of alone: of each round; the median, the least and the most. Lost: visitors' requests that were not answered with 200, the sum of
        all rounds. Medians of #{@options[:rounds]} rounds in turn.

        #{align(HEAD, rows.map { |name, rounds| cells(rounds, name) }, texts: [0])}

        Versions: #{Machine.versions(%w[puma]).map { |name, version| "#{name} #{version}" }.join(", ")}. #{facts["ruby"]}, Linux #{facts["kernel"]}.
      PAGE
    end
  end
end

Bench::CrawlersBench.main("crawlers", visitors: 20, rate: 10, crawler: 100, cost: 20, wait: 10, seconds: 20, rounds: 5)
