# frozen_string_literal: true

# `bin/bench cluster --rolling`: three fronts of a cluster under load, quiet and restarted one after the other in turn: requests that fail, and p99 during the restart
# beside p99 without.
#
#   bin/bench cluster --rolling [--rounds 5] [--seconds 10] [--clients 8] [--think 100] [--boot 1500] [--work 5] [--output DIR]
#
# Seconds of quiet in each round; clients of each front; milliseconds between an answer and the next request, of processor time to load, and of a request.
require_relative "../../test/e2e/support/valkey"
require_relative "../lib/contest_command"
require_relative "rolling_contest"

module Bench
  class RollingBench < ContestCommand
    NUMBERS = { rounds: 5, seconds: 10, clients: 8, think: 100, boot: 1500, work: 5 }.freeze
    HEAD = ["round", "requests", "quiet: p50 ms", "p99", "rolling: p50 ms", "p99", "longest", "x", "restart s", "failed", "old code"].freeze
    # p99 during a rolling restart in units of that without, at most.
    TARGET = 1.5

    def self.start
      ARGV.delete("--rolling")
      main("rolling", called: "cluster --rolling", **NUMBERS) do
        abort "bin/bench cluster: there is no valkey-server and no redis-server" unless Valkey.program
        {}
      end
    end

    private

    def measure = RollingContest.new(@options, processes) { |what| warn what }.run

    def figures(found)
      rounds = found[:rounds].rounds.map { |round| { **round.to_h, quiet: round.quiet.to_h, rolling: round.rolling.to_h, x: round.ratio } }
      { "options" => @options.slice(*NUMBERS.keys), "rounds" => rounds, "requests" => found[:rounds].count, "failures" => found[:rounds].failures,
        "elsewhere" => found[:elsewhere] }
    end

    def cells(round, number)
      quiet, rolling = round.quiet, round.rolling
      [number.to_s, rounded(quiet.requests + rolling.requests), *[quiet.p50, quiet.p99, rolling.p50, rolling.p99, rolling.max].map { |one| milliseconds(one) }, factor(round.ratio),
       format("%.1f", round.seconds), (round.failed_quiet + round.failed_rolling).to_s, round.old.to_s]
    end

    def verdict(rounds)
      failed = rounds.failures.values.sum
      "**#{failed} of #{rounded(rounds.count)} requests failed (target: 0). p99 during a rolling restart is #{spread(Arithmetic.median(rounds.ratios), rounds.ratios.minmax)} of that without (target: #{factor(TARGET)} at most).**"
    end

    def failures(rounds)
      "\n\nWhat failed: #{rounds.failures.map { |what, count| "#{count} x #{what}" }.join("; ")}." if rounds.failures.any?
    end

    def busy(elsewhere, facts)
      "**Other work took #{elsewhere.round(1)} of #{facts["processors"]} processors meanwhile: don't rely on times.**\n\n" if elsewhere >= QUIET
    end

    def page(facts, found)
      rounds = found[:rounds]
      <<~PAGE
        # #{@options[:command]}

        #{facts["date"]} · #{facts["processors"]} x #{facts["processor"]} · load before: #{facts["load_before"].join(" ")}

        #{busy(found[:elsewhere], facts)}#{verdict(rounds)}#{failures(rounds)}

        #{RollingContest::FRONTS} fronts of a cluster on this machine, each with #{Servers::WORKERS} workers of #{Servers::THREADS} threads, and one Valkey. The application takes #{@options[:boot]} ms of processor time to load and #{@options[:work]} ms to
        answer. #{@options[:clients]} clients at each front, half of them on kept connections, #{@options[:think]} ms between an answer and the next request. Each round: #{@options[:seconds]} s without a restart, then a new version and `paceline restart --rolling`.
        Failed: without the right answer. Old code: answered by the old version though the restart was over. x: p99 during the restart to p99 without; the median, the least and the most of #{@options[:rounds]} rounds.

        #{align(HEAD, rounds.rounds.each.with_index(1).map { |round, number| cells(round, number) }, texts: [])}

        Versions: #{found[:versions].map { |name, version| "#{name} #{version}" }.join(", ")}. #{facts["ruby"]}, Linux #{facts["kernel"]}.
      PAGE
    end
  end
end
