# frozen_string_literal: true

# What a story measured, in a form that its Markdown, its JSON and the page share: parts, a row for each way, figures by the names below. Never measures.
require_relative "../lib/arithmetic"
require_relative "../lib/table"

module Bench
  module StoryFigures
    extend Table

    # BETTER: "more" or "less".
    Measure = Struct.new(:title, :better, :format) do
      # What stands behind a number where the title is said elsewhere.
      def unit = title[%r{(?:ms|µs|MB|requests/s)\z}].to_s
    end

    MEASURES = {
      "rate" => Measure.new("requests/s", "more", :rounded),
      "ms" => Measure.new("ms", "less", :short),
      "outside" => Measure.new("outside ms", "less", :short),
      "inside" => Measure.new("inside ms", "less", :short),
      "p50" => Measure.new("p50 ms", "less", :short),
      "p99" => Measure.new("p99 ms", "less", :short),
      "longest" => Measure.new("longest ms", "less", :short),
      "us" => Measure.new("µs", "less", :short),
      "together" => Measure.new("by several processes, a second", "more", :rounded),
      "failed" => Measure.new("requests lost", "less", :rounded),
      "requests" => Measure.new("requests", "more", :rounded),
      "stale" => Measure.new("stale pages", "less", :rounded),
      "opened" => Measure.new("TLS connections", "less", :rounded),
      "cpu" => Measure.new("CPU µs", "less", :rounded),
      "cpu_ms" => Measure.new("CPU ms", "less", :short),
      "calls" => Measure.new("system calls", "less", :short),
      "switches" => Measure.new("context switches", "less", :short),
      "writes" => Measure.new("writes to the client", "less", :short),
      "workers" => Measure.new("workers", "more", :rounded),
      "pss_mb" => Measure.new("memory (PSS) MB", "less", :short),
      "private_mb" => Measure.new("private dirty MB", "less", :short),
      "slots_used" => Measure.new("heap slots used", "less", :rounded),
      "slots_free" => Measure.new("heap slots free", "less", :rounded),
      "start" => Measure.new("s until ready", "less", :short),
      "swapped_mb" => Measure.new("swapped MB", "less", :short),
      "seconds" => Measure.new("s until the new version", "less", :short),
      "day" => Measure.new("in 24 hours", "more", :rounded)
    }.freeze

    # MAIN: the figure that its chart shows. RATIO: how many times better than BASELINE in that figure, the median of the rounds' ratios; SPREAD: the least and
    # the most of them. WRONG: why there are no figures. RANGE: least and most of the main figure.
    Row = Struct.new(:name, :figures, :ratio, :spread, :range, :wrong, keyword_init: true) do
      def to_h = super.compact
    end
    Part = Struct.new(:title, :note, :main, :baseline, :rows, keyword_init: true) do
      def to_h = super.merge(rows: rows.map(&:to_h)).compact
    end

    module_function

    # A part of a Summary's GROUP. RENAMES: {server's name => how the row is named}; MORE: {server's name => further figures}.
    def of_group(group, title:, note: nil, main: "rate", baseline: nil, more: {})
      rows = group.rows.map { |row| of_summary(row, main, more.fetch(row.server, {})) }
      Part.new(title: title, note: note, main: main, baseline: baseline, rows: rows)
    end

    def of_summary(row, main, more)
      return Row.new(name: row.server, wrong: row.wrong) if row.wrong

      figures = { "rate" => row.rate, "p50" => ms(row.p50), "p99" => ms(row.p99), "cpu" => row.cpu, "calls" => row.calls, "switches" => row.switches, **more }.compact
      rates = row.by_round.map { |round| round[:rate] }.compact
      Row.new(name: row.server, figures: figures, ratio: row.rate_ratio, spread: row.rate_spread, range: (rates.minmax if main == "rate" && rates.any?))
    end

    # A row of figures that were taken in rounds: {measure => [figure of each round]}. BASE: the baseline's for MAIN, round by round.
    def of_rounds(name, rounds, main:, base: nil, figures: {})
      ratios = (base || []).zip(rounds.fetch(main)).filter_map { |one, own| MEASURES.fetch(main).better == "less" ? Arithmetic.ratio(one, own) : Arithmetic.ratio(own, one) }
      measured = rounds.fetch(main).compact
      Row.new(name: name, figures: rounds.transform_values { |values| Arithmetic.median(values) }.merge(figures).compact, range: (measured.minmax if measured.any?),
              ratio: Arithmetic.median(ratios), spread: (ratios.minmax if ratios.any?))
    end

    def ms(seconds) = seconds && (seconds * 1000)

    # A figure as text, without its unit.
    def text(measure, number) = number.nil? ? "" : send(MEASURES.fetch(measure).format, number)

    def short(number)
      return rounded(number) if number >= 100 || (number % 1).zero?

      format(number < 10 ? "%.2f" : "%.1f", number)
    end

    # "3.91x (3.80-4.02)"
    def times(ratio, range)
      ratio ? "#{spread(ratio, range).sub(/\A\S+/) { |number| "#{number}x" }}" : ""
    end

    # Measures of which some row has a figure: the main one first.
    def columns(part)
      present = part.fetch("rows").flat_map { |row| (row["figures"] || {}).keys }.uniq
      ([part["main"]] + MEASURES.keys) & present
    end
  end
end
