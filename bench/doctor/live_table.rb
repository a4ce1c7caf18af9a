# frozen_string_literal: true

# What visitors noticed of the doctor, in the report of `bin/bench doctor`. Never measures anything.
require_relative "live"

module Bench
  module DoctorLiveTable
    LIVE = ["requests/s", "requests", "with", "p50 ms", "with", "p99 ms", "with", "p99 ratio", "CPU ms", "with", "elsewhere", "with", "doctor s", "waited s"].freeze

    private

    def live_rows = @results.live.select { |row| row.rounds.any? }

    # "1.04 at 10/s, 1.08 at 50/s"; nil where nothing was measured.
    def live_ratios
      known = live_rows.select { |row| row.failures.empty? }
      known.map { |row| "#{factor(row.ratio(99))} at #{row.rate}/s#{" (no whole run)" if row.rounds.any?(&:failure)}" }.join(", ") if known.any?
    end

    def live_table
      return if live_rows.empty?

      <<~TEXT.strip
        Visitors of #{DoctorLive::APPLICATION} (2 x 5 threads), without the doctor and with it: it watches for #{DoctorLive::WATCH} s and then makes its trials; #{rounds_made}. Requests are sent at
        fixed times (open loop); p50, p99: of all rounds together, ratio: of these, and the rounds' own. CPU: of the front and the workers for each request. Elsewhere:
        processors that others used, with the doctor: its shadows, too. Waited: for a quiet machine.

        #{align(LIVE, live_rows.map { |row| live_row(row) }, texts: [])}
      TEXT
    end

    def rounds_made = live_rows.map { |row| row.rounds.size }.max.then { |count| "#{count} round#{"s" if count > 1}" }

    def live_row(row)
      return [row.rate.to_s, "no figure", *["-"] * (LIVE.size - 2)] if row.failures.any?

      quiet, during = row.quiet, row.during
      [row.rate.to_s, rounded(quiet.count), rounded(during.count), *[50, 99].flat_map { |percent| [quiet, during].map { |one| format("%.1f", one.percentile(percent)) } },
       spread(row.ratio(99), row.spread), *%i[cpu elsewhere].flat_map { |name| %i[quiet during].map { |part| format("%.2f", row.median(part, name)) } },
       doctors(row, :seconds), doctors(row, :waited)]
    end

    def doctors(row, name) = row.rounds.map { |round| round[name]&.round.to_s }.join(", ")

    # Pairs of what has no result and why.
    def live_failures
      @results.live.flat_map do |row|
        of_rounds = row.rounds.each_with_index.filter_map { |round, number| ["live, #{row.rate}/s, round #{number + 1}", round.failure] if round.failure }
        [*of_rounds, *wrong_answers(row), *([["live, #{row.rate}/s", row.failure]] if row.failure)]
      end
    end

    def wrong_answers(row) = row.failures.map { |what, count| ["live, #{row.rate}/s", "#{count} x #{what}"] }

    def live_records
      @results.live.map do |row|
        { rate: row.rate, failure: row.failure, p99_ratio: (row.ratio(99) if row.rounds.any?),
          rounds: row.rounds.map { |round| round.to_h.merge(quiet: load_record(round.quiet), during: load_record(round.during), p99_ratio: round.p99_ratio).compact } }.compact
      end
    end

    def load_record(load)
      load.to_h.merge(latencies: nil, requests: load.latencies.count, p50_ms: load.latencies.percentile(50), p99_ms: load.latencies.percentile(99)).compact
    end
  end
end
