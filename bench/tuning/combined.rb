# frozen_string_literal: true

# Results of several runs of `bin/bench tuning`, one or more of each Ruby, as tables with a column for each Ruby. Of several runs of one Ruby the least and the
# most; a way that gave a wrong answer in one of them has no figure there.
require_relative "../serve/combined"

module Bench
  class TuningCombined < Combined
    # RUNS: {name => result}
    def initialize(runs)
      super
      other = runs.find { |_, run| run["memory"].nil? }&.first
      raise Unusable, "#{other} is no result of `bin/bench tuning`" if other

      sorted = runs.sort_by { |_, run| Gem::Version.new(run["ruby"][/[\d.]+/]) }
      @by_ruby = sorted.group_by { |_, run| run["ruby"] }.transform_values { |some| Combined.new(some.to_h) }.sort_by { |ruby, _| [ruby[/[\d.]+/], ruby] }.to_h
    end

    def markdown
      [heading, warnings, choices, "## Threads\n\n#{threads}", *FIGURES.map { |title, figure| "## #{title}\n\n#{timed(figure)}" }, "## Private memory of a worker\n\n#{memories}", sources]
        .compact.join("\n\n") << "\n"
    end

    # [[least, most] of the cells' ratios of CPU, the same of memory]: what WAY costs and saves with RUBY.
    def choice(way, ruby)
      cpu = of(ruby).flat_map { |run| run["results"] }.flat_map { |group| group["servers"].select { |row| row["server"] == way } }.filter_map { |row| row["cpu_ratio"] }
      memory = of(ruby).flat_map { |run| run["memory"] }.select { |one| one["way"] == way }.filter_map { |one| one["worker_ratio"] }
      [cpu.minmax, memory.minmax]
    end

    private

    FIGURES = { "CPU µs a request" => "cpu", "Requests/s" => "rate", "p99 ms" => "p99" }.freeze
    private_constant :FIGURES

    def of(ruby) = @runs.values.select { |run| run["ruby"] == ruby }

    # In the first run's order; the first is what the others are compared with.
    def ways = (@runs.values.flat_map { |run| run["results"].flat_map { |group| group["servers"].map { |row| row["server"] } } } + @runs.values.flat_map { |run| run["memory"].map { |one| one["way"] } }).uniq

    def baseline = ways.first

    def by_ruby(head, rows) = align([*head, *@by_ruby.keys.map { |ruby| "Ruby #{ruby}" }], rows, texts: (0...head.size).to_a)

    def choices
      rows = (ways - [baseline]).map { |way| [way, *@by_ruby.keys.map { |ruby| told(*choice(way, ruby)) }] }
      "CPU a request and private memory of a worker, relative to #{baseline}: the least and the most of all pages and numbers of threads.\n\n#{by_ruby(["way"], rows)}"
    end

    def told(cpu, memory)
      { "CPU" => cpu, "memory" => memory }.filter_map { |name, range| "#{name} #{between(range) { |one| factor(one) }}x" if range.first }.join(", ")
    end

    # One figure where both are the same as they are written.
    def between(range, &block) = range.map(&block).uniq.join("-")

    def timed(figure)
      rows = loads.flat_map do |load|
        ways.each_with_index.filter_map do |way, i|
          cells = @by_ruby.values.map { |runs| timed_cell(runs.range(load, way, i.zero? ? figure : "#{figure}_ratio"), figure, i.zero?) }
          [*(i.zero? ? load.first(2) : ["", ""]), way, *cells] if cells.any? { |cell| !cell.empty? }
        end
      end
      by_ruby(%w[page load way], rows)
    end

    def timed_cell((range, reasons), figure, absolute)
      return "no figure: #{reasons.join("; ").gsub("|", "/")}" if reasons.any?
      return "" unless range.first

      absolute ? between(range) { |one| figure == "p99" ? milliseconds(one) : rounded(one) } : "#{between(range) { |one| factor(one) }}x"
    end

    def threads
      pages = @runs.values.flat_map { |run| run["threads"].map { |group| group["scenario"] } }.uniq
      rows = pages.flat_map { |page| { "CPU" => "cpu_ratio", "requests/s" => "rate_ratio", "p99" => "p99_ratio" }.map { |title, figure| ["#{page}: #{title}", *@by_ruby.keys.map { |ruby| threads_cell(page, ruby, figure) }] } }
      "#{baseline} with the most threads, relative to the fewest.\n\n#{by_ruby(["page"], rows)}"
    end

    def threads_cell(page, ruby, figure)
      range = of(ruby).flat_map { |run| run["threads"] }.select { |group| group["scenario"] == page }.filter_map { |group| group["servers"].last[figure] }.minmax
      range.first ? "#{between(range) { |one| factor(one) }}x" : ""
    end

    def memories
      keys = @runs.values.flat_map { |run| run["memory"].map { |one| one.values_at("app", "threads", "way") } }.uniq
      by_ruby(%w[app threads way], keys.map { |key| [key[0], key[1].to_s, key[2], *@by_ruby.keys.map { |ruby| memory_cell(key, ruby) }] })
    end

    def memory_cell(key, ruby)
      found = of(ruby).flat_map { |run| run["memory"] }.select { |one| one.values_at("app", "threads", "way") == key && one["worker"] }
      return "" if found.empty?

      "#{between(found.map { |one| one["worker"] }.minmax) { |one| megabytes(one) }} MB (#{between(found.map { |one| one["worker_ratio"] }.minmax) { |one| factor(one) }}x)"
    end

    def heading
      "`#{commands.join("`, `")}`. x: median of each round's ratio to #{baseline} with as many threads, in the same run."
    end

    def warnings
      told = []
      told << "Runs of fewer than #{Servers::ROUNDS} rounds: a first impression." if @runs.values.any? { |run| run["rounds"].between?(1, Servers::ROUNDS - 1) }
      told << "Different machines." if differ { |run| run["machine"].values_at("processor", "processors", "kernel") }
      told << "Different builds." if differ { |run| run["versions"]["paceline"] }
      told.concat(busy)
      "**#{told.join(" ")}**" if told.any?
    end
  end
end
