# frozen_string_literal: true

# `bin/bench balance`: Paceline as a balancer over several hosts beside HAProxy: p99 with one slow host, requests that are lost when a host is killed, and CPU for
# a request.
#
#   bin/bench balance [--rounds 5] [--seconds 10] [--rate 400] [--connections 32] [--output DIR]
require_relative "lib/contest_command"
require_relative "balance/contest"

module Bench
  class BalanceBench < ContestCommand
    FIGURES = { slow: { "p50 ms" => :p50, "p99 ms" => :p99, "lost" => :lost }, dies: { "p50 ms" => :p50, "p99 ms" => :p99, "lost" => :lost },
                cost: { "CPU µs" => :cpu, "requests/s" => :rate, "p99 ms" => :p99, "lost" => :lost } }.freeze
    TITLES = { slow: "One of four hosts is slow", dies: "One of three hosts is killed", cost: "What a request costs" }.freeze
    # Figure that the balancers are compared by.
    COMPARED = { slow: :p99, dies: :p99, cost: :cpu }.freeze

    private

    def measure = BalanceContest.new(@options, processes) { |what, done| warn what if done }.run

    def cells(scene, rows, name)
      figures = FIGURES[scene].values.map do |key|
        values = rows[name].map { |round| round[key] }
        key == :lost ? values.sum.to_s : rounded(Arithmetic.median(values))
      end
      compared = COMPARED[scene]
      ratios = rows[name].zip(rows["haproxy leastconn"]).map { |round, peer| round[compared] / peer[compared] }
      [name, *figures, spread(Arithmetic.median(ratios), ratios.minmax)]
    end

    def section(scene, rows)
      head = ["balancer", *FIGURES[scene].keys, "#{COMPARED[scene]}, x of haproxy leastconn"]
      "## #{TITLES[scene]}\n\n#{align(head, rows.keys.map { |name| cells(scene, rows, name) }, texts: [0])}"
    end

    def page(facts, found)
      <<~PAGE
        # #{@options[:command]}

        #{facts["date"]} · #{facts["processors"]} x #{facts["processor"]} · load before: #{facts["load_before"].join(" ")}

        Hosts have five threads and take 5 ms for an answer of 1 KB; the slow one 100 ms. #{@options[:rate]} requests a second at fixed times (open loop), #{@options[:seconds]} s; the host is killed in the
        middle. Cost: #{@options[:connections]} kept connections, as fast as they can, on three nginx that answer at once; CPU of the balancer alone. Both check /up every 2 s and repeat
        what was not answered (bench/peers/balance.haproxy.cfg). Lost: no right answer, the sum of all rounds. Medians of #{@options[:rounds]} rounds in turn; ratios of each round: the median, the least and the
        most.

        #{found.map { |scene, rows| section(scene, rows) }.join("\n\n")}

        Versions: #{Machine.versions(%w[haproxy nginx]).map { |name, version| "#{name} #{version}" }.join(", ")}. #{facts["ruby"]}, Linux #{facts["kernel"]}.
      PAGE
    end
  end
end

Bench::BalanceBench.main("balance", rounds: 5, seconds: 10, rate: 400, connections: 32) do
  { "HAProxy" => "/usr/sbin/haproxy", "nginx" => "/usr/sbin/nginx" }.each do |name, path|
    abort "bin/bench balance: #{name} is missing: run bin/setup bench" unless File.executable?(path)
  end
  {}
end
