# frozen_string_literal: true

# `bin/bench crawlers`: what visitors notice of a crawler that asks for more than the machine can do: with `crawlers = "last"`, without it, and on Puma.
#
#   bin/bench crawlers [--visitors 20] [--rate 10] [--crawler 100] [--cost 20] [--wait 10] [--seconds 20] [--rounds 5] [--output DIR]
require "fileutils"
require "json"
require "optparse"
require_relative "lib/arithmetic"
require_relative "lib/invocation"
require_relative "lib/machine"
require_relative "lib/table"
require_relative "crawlers/contest"

module Bench
  class CrawlersBench
    include Table

    HEAD = ["server", "alone: p50 ms", "p99", "with crawler: p50 ms", "p99", "p99, x of alone", "lost", "crawled/s", "refused/s"].freeze

    def initialize(options)
      @options = options
    end

    def run
      facts = Machine.facts
      processes = Processes.new
      processes.adopt_orphans
      conclude(facts, CrawlersContest.new(@options, processes) { |what, done| warn what if done }.run)
    end

    private

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

    def conclude(facts, rows)
      text = page(facts, rows)
      puts text
      base = File.join(@options[:output], "crawlers-#{Time.now.utc.strftime("%Y%m%d-%H%M%S")}")
      FileUtils.mkdir_p(@options[:output])
      File.write("#{base}.md", text)
      File.write("#{base}.json", "#{JSON.pretty_generate("command" => @options[:command], "machine" => facts, "results" => rows)}\n")
      puts "\nWritten to #{base}.md and .json"
    end
  end
end

options = { visitors: 20, rate: 10, crawler: 100, cost: 20, wait: 10, seconds: 20, rounds: 5 }
command = ["bin/bench crawlers", *ARGV].join(" ")
output = File.join(Bench::Servers::HERE, "bench/results")
OptionParser.new do |parser|
  parser.banner = "bin/bench crawlers [options]"
  options.each_key { |key| parser.on("--#{key} N", Integer) { |value| options[key] = value } }
  parser.on("--output DIR") { |directory| output = directory }
end.parse!
options.update(command: command, output: output)
Bench::Invocation.need_paceline("crawlers")
Bench::Invocation.interrupt_by_signals
begin
  Bench::Invocation.of_command { Bench::CrawlersBench.new(options).run }
rescue Bench::RunningServer::Failed => e
  abort "bin/bench crawlers: #{e.message}"
end
