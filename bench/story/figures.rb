# frozen_string_literal: true

# What a story measured, in a form that its Markdown, its JSON and the page share: parts, a row for each way, figures by the names below. Never measures.
require_relative "../lib/arithmetic"
require_relative "../lib/table"

module Bench
  module StoryFigures
    extend Table

    # BETTER: "more" or "less". SAYS: what it is, for somebody who does not know its name.
    Measure = Struct.new(:title, :better, :format, :says) do
      # What stands behind a number where the title is said elsewhere.
      def unit = title[%r{(?:ms|µs|MB|requests/s)\z}].to_s

      # What a chart of it shows, and how to read it.
      def caption
        said = says || title
        "#{said}#{" (#{unit})" unless unit.empty? || said.end_with?(unit)}: a #{better == "more" ? "longer" : "shorter"} bar is better"
      end
    end

    MEASURES = {
      "rate" => Measure.new("requests/s", "more", :rounded, "Requests answered each second"),
      "ms" => Measure.new("ms", "less", :short, "How long it took"),
      "outside" => Measure.new("outside ms", "less", :short, "How long the client waited; the dark part is the application's own time"),
      "inside" => Measure.new("inside ms", "less", :short, "The application's own time"),
      "p50" => Measure.new("p50 ms", "less", :short, "Half of the requests took no longer than this"),
      "p99" => Measure.new("p99 ms", "less", :short, "99 of 100 requests took no longer than this"),
      "longest" => Measure.new("longest ms", "less", :short, "The longest request"),
      "us" => Measure.new("µs", "less", :short, "How long a transaction took"),
      "together" => Measure.new("by several processes, a second", "more", :rounded),
      "failed" => Measure.new("requests lost", "less", :rounded, "Requests without the right answer"),
      "requests" => Measure.new("requests", "more", :rounded),
      "stale" => Measure.new("stale pages", "less", :rounded),
      "opened" => Measure.new("TLS connections", "less", :rounded, "TLS connections that were opened"),
      "cpu" => Measure.new("CPU µs", "less", :rounded),
      "cpu_ms" => Measure.new("CPU ms", "less", :short),
      "calls" => Measure.new("system calls", "less", :short),
      "switches" => Measure.new("context switches", "less", :short),
      "writes" => Measure.new("writes to the client", "less", :short),
      "workers" => Measure.new("workers", "more", :rounded),
      "pss_mb" => Measure.new("memory (PSS) MB", "less", :short, "Memory, with a share of what processes have in common (PSS)"),
      "private_mb" => Measure.new("private dirty MB", "less", :short),
      "slots_used" => Measure.new("heap slots used", "less", :rounded),
      "slots_free" => Measure.new("heap slots free", "less", :rounded),
      "start" => Measure.new("s until ready", "less", :short),
      "swapped_mb" => Measure.new("swapped MB", "less", :short),
      "seconds" => Measure.new("s until the new version", "less", :short),
      "day" => Measure.new("requests in 24 hours", "more", :rounded)
    }.freeze

    # MAIN: the figure that its chart shows. RATIO: how many times better than BASELINE in that figure, the median of the rounds' ratios; SPREAD: the least and
    # the most of them. WRONG: why there are no figures. RANGE: least and most of the main figure.
    Row = Struct.new(:name, :figures, :ratio, :spread, :range, :wrong, keyword_init: true) do
      def to_h = super.compact
    end
    Part = Struct.new(:title, :note, :main, :baseline, :rows, keyword_init: true) do
      def to_h = super.merge(rows: rows.map(&:to_h)).compact
    end

    # Processes that wait for each processor: with more before a run the machine was not idle.
    IDLE = 0.5

    module_function

    # That the machine was not idle before the run, or nil. FACTS: Machine's.
    def busy(facts)
      load = facts["load_before"].to_a.first.to_f
      processors = [facts["processors"].to_i, 1].max
      "The machine was not idle before the run: a load of #{load} for #{processors} processor#{"s" if processors > 1}." if load > IDLE * processors
    end

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
      # Of nothing at all there is no ratio.
      ratios = ratios.select(&:positive?)
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

    # With one round nothing is known of how much figures vary by themselves: so much may be that.
    ALONE = 0.1

    # RATIO in words, as a number for them, and RANGE as they have it: how many times better or worse, or that the rounds do not agree on which.
    def verdict(ratio, range)
      least, most = range && range.uniq.size > 1 ? range : [ratio * (1 - ALONE), ratio * (1 + ALONE)]
      return ["", "no difference", range] if least <= 1 && most >= 1

      ratio > 1 ? ["times better", times(ratio, nil), range] : ["times worse", times(1 / ratio, nil), range&.map { |one| 1 / one }&.sort]
    end

    # What a part's ratios are of: the figure of its chart, or, where that is p50, requests/s.
    def compared_by(part) = part.fetch("main") == "p50" ? "rate" : part.fetch("main")
    def ratios?(part) = part.fetch("rows").any? { |row| row["ratio"] }

    # Measures of which some row has a figure: the main one first.
    def columns(part)
      present = part.fetch("rows").flat_map { |row| (row["figures"] || {}).keys }.uniq
      ([part["main"]] + MEASURES.keys) & present
    end
  end
end
