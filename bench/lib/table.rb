# frozen_string_literal: true

# Figures as text: a Markdown table, and numbers as precise as they are worth.
require_relative "arithmetic"

module Bench
  module Table
    # Processors; more than that elsewhere is told.
    QUIET = 0.25
    # The part of a processor from which the load generator may be what limits a server.
    BUSY = 0.85

    private

    # Said at the top when other work disturbed most loads.
    def disturbed(groups, processors)
      elsewhere = Arithmetic.median(groups.flat_map(&:rows).map(&:elsewhere))
      return if elsewhere.nil? || elsewhere < QUIET

      "**Other work took #{elsewhere.round(1)} of #{processors} processors meanwhile (median): rely on neither requests/s nor percentiles.**"
    end

    # A Markdown table that reads well as text too.
    def align(head, rows, texts:)
      widths = [head, *rows].transpose.map { |column| column.map(&:length).max }
      line = ->(cells) { "| #{cells.each_with_index.map { |cell, i| texts.include?(i) ? cell.ljust(widths[i]) : cell.rjust(widths[i]) }.join(" | ")} |" }
      rule = "|#{widths.each_with_index.map { |width, i| texts.include?(i) ? "-" * (width + 2) : "#{"-" * (width + 1)}:" }.join("|")}|"
      [line[head], rule, *rows.map(&line)].join("\n")
    end

    # In place of COUNT figures: why there are none.
    def refused(why, count)
      ["no figure: #{why.gsub("|", "/")}", *["-"] * (count - 1)]
    end

    # A median with the least and the most that it comes from.
    def spread(ratio, range)
      [factor(ratio), *("(#{range.map { |one| factor(one) }.uniq.join("-")})" if range)].join(" ")
    end

    def rounded(number)
      return "" unless number

      number >= 100 || (number % 1).zero? ? number.round.to_s.reverse.scan(/\d{1,3}/).join(",").reverse : number.round(1).to_s
    end

    def factor(ratio)
      return "" unless ratio

      format(ratio >= 100 ? "%.0f" : (ratio >= 0.01 ? "%.2f" : "%.4f"), ratio)
    end

    def milliseconds(seconds) = seconds ? format(seconds < 0.01 ? "%.2f" : "%.1f", seconds * 1000) : ""
    def megabytes(bytes) = bytes ? format("%.1f", bytes / 1048576.0) : ""
  end
end
