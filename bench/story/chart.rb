# frozen_string_literal: true

# A part of a story as a chart: a bar for each way, as SVG to be put into a page that defines the classes. No script, no fixed width: text keeps its size on a
# phone. Takes a part as its JSON has it.
require "cgi/escape"
require_relative "figures"

module Bench
  module StoryChart
    ROW, BAR = 44, 16
    OWN = /paceline|install!/i

    module_function

    def svg(part)
      main = part.fetch("main")
      rows = part.fetch("rows").select { |row| figure(row, main) }
      return "" if rows.empty?

      most = rows.map { |row| [figure(row, main), *row["range"]].max }.max
      bars = rows.each_with_index.map { |row, i| bar(row, main, most, i * ROW) }
      measure = StoryFigures::MEASURES.fetch(main)
      described = "#{part.fetch("title")}: #{measure.caption}. " +
                  rows.map { |row| "#{row.fetch("name")} #{StoryFigures.text(main, figure(row, main))}" }.join(", ")
      %(<svg class="chart" role="img" aria-label="#{escape(described)}" width="100%" height="#{rows.size * ROW}">#{bars.join}</svg>)
    end

    def bar(row, main, most, top)
      own = row.fetch("name").match?(OWN) ? " own" : ""
      value = figure(row, main)
      %(<text x="0" y="#{top + 15}" class="name">#{escape(row.fetch("name"))}</text>) +
        %(<text x="100%" y="#{top + 15}" text-anchor="end" class="value">#{escape("#{StoryFigures.text(main, value)} #{StoryFigures::MEASURES.fetch(main).unit}".strip)}</text>) +
        %(<rect x="0" y="#{top + 21}" width="#{percent(value, most)}" height="#{BAR}" rx="3" class="bar#{own}"/>) + within(row, most, top) + whisker(row["range"], most, top)
    end

    # What of a time outside was the application's own.
    def within(row, most, top)
      inside = figure(row, "inside") or return ""
      %(<rect x="0" y="#{top + 21}" width="#{percent(inside, most)}" height="#{BAR}" rx="3" class="inside"><title>inside: #{escape(StoryFigures.text("inside", inside))} ms</title></rect>)
    end

    # From the least to the most of the rounds.
    def whisker(range, most, top)
      return "" if range.nil? || range.uniq.size < 2

      middle = top + 21 + (BAR / 2)
      %(<line x1="#{percent(range[0], most)}" x2="#{percent(range[1], most)}" y1="#{middle}" y2="#{middle}" class="range"/>)
    end

    # So much of the width; what is something is never invisible.
    def percent(value, most)
      return "0%" unless most.positive? && value.positive?

      format("%g%%", [value * 100.0 / most, 0.4].max.round(2))
    end

    def figure(row, main) = row.fetch("figures", {})[main]
    def escape(text) = CGI.escapeHTML(text.to_s)
  end
end
