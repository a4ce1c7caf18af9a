# frozen_string_literal: true

# What visitors noticed of the doctor, in the report of `bin/bench doctor`. Never measures anything.
require_relative "live"

module Bench
  module DoctorLiveTable
    LIVE = ["requests/s", "requests", "with", "p50 ms", "with", "p99 ms", "with", "p99 ratio", "quiet beside quiet", "CPU ms", "with", "elsewhere", "with", "doctor s", "waited s"].freeze

    PARTS = %i[quiet during].freeze
    private_constant :LIVE, :PARTS

    private

    def live_rows = @results.live.select { |row| row.rounds.any? && row.ratio }

    # "1.04 at 10/s, 1.08 at 50/s"; nil where nothing was measured.
    def live_ratios
      known = live_rows.select { |row| row.failures.empty? }
      known.map { |row| "#{factor(row.ratio)} at #{row.rate}/s#{" (no whole run)" if row.rounds.any?(&:failure)}" }.join(", ") if known.any?
    end

    def live_table
      return if live_rows.empty?

      <<~TEXT.strip
        Visitors of #{DoctorLive::APPLICATION} (2 x 5 threads), without the doctor and with it: it watches for #{DoctorLive::WATCH} s and then makes its trials; #{rounds_made}, each between two quiet
        times, which are as long and have the same requests. These are sent at fixed times (open loop). p50, p99: medians of the rounds; ratio: of each round's p99 to the mean of the
        quiet times beside it, the median and the least and the most. Quiet beside quiet: the larger p99 of two quiet times that follow each other as a multiple of the smaller, likewise:
        what the machine does by itself. CPU: of the front and the workers for each request. Elsewhere: processors that others used, with the doctor: its shadows, too. Waited: for a
        quiet machine.

        #{align(LIVE, live_rows.map { |row| live_row(row) }, texts: [])}
      TEXT
    end

    def rounds_made = live_rows.map { |row| row.rounds.size }.max.then { |count| "#{count} round#{"s" if count > 1}" }

    def live_row(row)
      return [row.rate.to_s, "no figure", *["-"] * (LIVE.size - 2)] if row.failures.any?

      [row.rate.to_s, *PARTS.map { |part| rounded(row.count(part)) }, *[50, 99].flat_map { |percent| PARTS.map { |part| format("%.1f", row.percentile(part, percent)) } },
       spread(row.ratio, row.ratios.minmax), spread(Arithmetic.median(row.nulls), row.nulls.minmax), *%i[cpu elsewhere].flat_map { |name| PARTS.map { |part| format("%.2f", row.median(part, name)) } },
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
        { rate: row.rate, failure: row.failure, p99_ratio: row.ratio, p99_ratios: row.ratios, quiet_ratios: row.nulls, quiet: row.quiet.map { |load| load_record(load) },
          rounds: row.rounds.map { |round| round.to_h.merge(during: load_record(round.during)).compact } }.compact
      end
    end

    def load_record(load)
      load.to_h.merge(latencies: nil, requests: load.latencies.count, p50_ms: load.latencies.percentile(50), p99_ms: load.latencies.percentile(99)).compact
    end
  end
end
