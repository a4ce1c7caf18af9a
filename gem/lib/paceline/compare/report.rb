# frozen_string_literal: true

require_relative "ratio"

module Paceline
  module Compare
    # What a Comparison found as text: a table for each page, one for memory, and sentences. A pure function of the result: it measures nothing.
    class Report
      # Name in the result => heading.
      FIGURES = { "rate" => "requests/s", "p50" => "median ms", "p99" => "p99 ms", "cpu_ms" => "CPU ms a request", "switches" => "context switches a request",
                  "system_calls" => "system calls a request", "bytes" => "bytes" }.freeze
      MEMORY = { "pss" => "memory MB (PSS)", "private_dirty" => "private dirty MB", "slots_used" => "heap slots used", "slots_free" => "heap slots free" }.freeze
      LABEL = 36
      CELL = 12
      MB = 1 << 20
      BYTES = %w[pss private_dirty].freeze
      private_constant :FIGURES, :MEMORY, :LABEL, :CELL, :MB, :BYTES

      def initialize(result)
        @result = result
        @settings = result.fetch("settings")
      end

      def text
        ["#{heading}\n", *pages.map { |path, page| table(path, page) }, memory, sentences, remarks].compact.join("\n")
      end

      # What the figures of one page say.
      def sentence(path, page)
        ratio = ->(name) { ratio_of(page.fetch("ratios")[name]) }
        rate = ratio["rate"] or return "#{path}: too few answers to compare."
        first = "#{rate.different? ? "B is" : "requests/s:"} #{rate.words("faster", "slower", "fast")}"
        others = { "median" => %w[p50 higher lower high], "p99" => %w[p99 higher lower high], "CPU a request" => %w[cpu_ms more less much] }
        said = others.filter_map { |name, (figure, *words)| (found = ratio[figure]) && "#{name}#{":" unless found.different?} #{found.words(*words)}" }
        "#{path}: #{[first, *said].join("; ")}."
      end

      private

      def pages
        @result.fetch("pages")
      end

      def sides
        @result.fetch("sides")
      end

      def heading
        lines = sides.map { |name, side| "#{name}  #{printable(side["dir"])}: #{printable(side["versions"])}" }
        load = "#{@settings["clients"]} client#{"s" unless @settings["clients"] == 1} with kept connections#{" and a visitor's cookies" if @settings["cookies"]}"
        lines << "#{printable(@settings["environment"])}, #{counted("worker")} with #{counted("thread")} each, #{load}, #{@settings["rounds"]} rounds of #{short(@settings["time"])} s in random order"
        lines.join("\n")
      end

      def counted(thing)
        count = @settings["#{thing}s"]
        "#{count} #{thing}#{"s" unless count == 1}"
      end

      def table(path, page)
        rows = FIGURES.filter_map do |name, title|
          a, b = page.fetch("figures").values.map { |figures| figures[name] }
          next row(title, "not known", "", @result.dig("not_known", name)) if a.nil? && b.nil? && @result.dig("not_known", name)
          row(title, *[a, b].map { |figure| number(figure) }, times(a, b, name == "bytes" ? nil : page.fetch("ratios")[name], bare: name != "bytes")) if a || b
        end
        [row(printable(path), "A", "B", "B / A"), *rows, ""].join("\n")
      end

      def memory
        rows = { "cold" => "cold", "after" => "#{number(@settings["requests"])} requests" }.flat_map do |moment, words|
          MEMORY.map do |name, title|
            a, b = sides.values.map { |side| side.dig("memory", moment, name) }
            row("#{title}, #{words}", *[a, b].map { |figure| number(figure && BYTES.include?(name) ? figure.fdiv(MB) : figure) }, times(a, b, nil))
          end
        end
        a, b = sides.values.map { |side| side["start_seconds"] }
        [row("memory and start", "A", "B", "B / A"), *rows, row("s until ready", number(a), number(b), times(a, b, nil)), ""].join("\n")
      end

      def sentences
        a, b = sides.values.map { |side| side.dig("memory", "after", "pss") }
        lines = pages.map { |path, page| sentence(printable(path), page) }
        more = (b - a).fdiv(MB)
        lines << "After #{number(@settings["requests"])} requests B takes #{number(more.abs)} MB #{more.negative? ? "less" : "more"} memory than A. Memory and start were measured once each, so they have no range."
        lines << "In parentheses: the range in which the true figure is in 99 of 100 cases."
        "#{lines.join("\n")}\n"
      end

      def remarks
        said = @result.fetch("remarks")
        said.map { |remark| "! #{printable(remark)}\n" }.join if said.any?
      end

      def row(*cells)
        label, a, b, ratio = cells
        "#{label.ljust(LABEL)}#{a.rjust(CELL)}#{b.rjust(CELL)}  #{ratio}".rstrip
      end

      # B by A, with the range if there is one. BARE: also without one.
      def times(a, b, ratio, bare: true)
        found = ratio_of(ratio)
        return format("%.2f (%.2f to %.2f)", found.middle, found.low, found.high) if found
        bare && a && b && a.positive? ? format("%.2f", b.fdiv(a)) : ""
      end

      def ratio_of(hash)
        hash && Ratio.new(*hash.values_at("middle", "low", "high"))
      end

      # Three digits, and whole numbers with commas.
      def number(figure)
        return "-" if figure.nil?
        return figure.round.to_s.reverse.scan(/\d{1,3}/).join(",").reverse if figure.is_a?(Integer) || figure >= 100
        figure >= 10 ? format("%.1f", figure) : format("%.2f", figure)
      end

      def short(figure)
        format("%g", figure)
      end

      # Paths and versions come from elsewhere.
      def printable(text)
        text.to_s.gsub(/[[:cntrl:]]/, "\u{fffd}")
      end
    end
  end
end
