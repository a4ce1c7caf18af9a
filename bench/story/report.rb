# frozen_string_literal: true

# Writes what a story found, as Markdown and JSON.
require_relative "../lib/kernel_counts"
require_relative "../lib/section_report"
require_relative "../lib/servers"
require_relative "figures"

module Bench
  # RESULTS: a list of StoryFigures::Parts; ABSENT: {way => why it was not run}.
  class StoryReport < SectionReport
    def initialize(words, results, absent, **of_run)
      super(results, **of_run)
      @words = words
      @absent = absent
    end

    def kind = "story-#{@words.name}"

    def markdown
      [heading, disclaimer, *parts.map { |part| section(part) }, missing, setting].compact.join("\n\n") << "\n"
    end

    # What the page is made from.
    def data
      { story: @words.name, title: @words.title, slow: @words.slow, published: @words.published,
        change: { where: @words.change[0], text: @words.change[1] }, **of_run, shown: shown, parts: parts, not_run: @absent, not_counted: KernelCounts.missing }
    end

    # The figures of its card: {part:, measure:, before: {name:, value:}, after: {name:, value:}, ratio:, spread:}, or nil if one of them is missing.
    def shown
      title, before, after = @words.shown
      part = parts.find { |one| one["title"].start_with?(title) } or return
      rows = [before, after].map { |name| part["rows"].find { |row| row["name"] == name && row.key?("figures") } }
      return unless rows.all?

      main = part["main"]
      values = rows.map { |row| { name: row["name"], value: row["figures"][main] } }
      { part: part["title"], measure: main, before: values[0], after: values[1], ratio: rows[1]["ratio"], spread: rows[1]["spread"] }
    end

    private

    # As they come back from JSON: what is written here and on the page is the same.
    def parts = JSON.parse(JSON.generate(@results.map(&:to_h)))

    def of_run = super.merge(options: { rounds: @options.rounds, seconds: @options.seconds, quick: @options.quick })

    def heading
      <<~TEXT.strip
        # #{@words.title}

        `#{@command}` · #{about_run("#{@options.rounds} round#{"s" if @options.rounds > 1}")}

        #{@words.slow}

        #{@words.published}

        The line that was changed, in #{@words.change[0]}:

        #{@words.change[1].gsub(/^/, "    ")}

        All take turns; figures are medians of the rounds. x: how many times better than the way with 1.00x in the first column, or in requests/s where that is p50: the median of the
        rounds' ratios, with the least and the most. CPU: µs a request in all of the server's processes. System calls and context switches: a request's, in a pass of its own.
      TEXT
    end

    def disclaimer
      lines = []
      lines << "**Fewer than #{Servers::ROUNDS} rounds: a first impression.**" if @options.rounds < Servers::ROUNDS
      lines << "**#{StoryFigures.busy(@facts)}**" if StoryFigures.busy(@facts)
      lines << "System calls are not counted: #{KernelCounts.missing}." if KernelCounts.missing
      lines.join("\n\n") if lines.any?
    end

    def section(part)
      columns = StoryFigures.columns(part)
      head = ["", *columns.map { |name| StoryFigures::MEASURES.fetch(name).title }, *("x" if ratios?(part))]
      rows = part["rows"].map { |row| cells(row, columns, part) }
      ["## #{part["title"]}", part["note"], align(head, rows, texts: [0])].compact.join("\n\n")
    end

    def cells(row, columns, part)
      count = columns.size + (ratios?(part) ? 1 : 0)
      return [row["name"], *refused(row["wrong"], count)] if row["wrong"]

      [row["name"], *columns.map { |name| StoryFigures.text(name, row["figures"][name]) }, *(StoryFigures.times(row["ratio"], row["spread"]) if ratios?(part))]
    end

    def ratios?(part) = StoryFigures.ratios?(part)

    def missing
      "Not run:\n\n#{@absent.map { |what, why| "- #{what}: #{why}" }.join("\n")}" if @absent.any?
    end
  end
end
