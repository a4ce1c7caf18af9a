# frozen_string_literal: true

# Writes what `bin/bench tuning` found, as Markdown and JSON.
require_relative "../lib/section_report"

module Bench
  # RESULTS: a TuningFound.
  class TuningReport < SectionReport
    def kind = "tuning"

    # "3.3", or "3.4 + YJIT" where Paceline enables it by itself.
    def self.ruby(version = RUBY_VERSION, yjit: defined?(::RubyVM::YJIT))
      minor = version[/\A\d+\.\d+/]
      yjit && Gem::Version.new(minor) >= Gem::Version.new("3.3") ? "#{minor} + YJIT" : minor
    end

    def markdown
      [heading, disturbed(@results.groups, @facts["processors"]), ways, threads, memory, absent, setting].compact.join("\n\n") << "\n"
    end

    def data
      { **of_run, paired: true, ruby: self.class.ruby, rounds: @options.rounds, results: plain(@results.groups), threads: plain(@results.threads),
        memory: @results.memory.map { |one| one.to_h.compact }, not_measured: @results.absent }
    end

    private

    def plain(groups)
      groups.map { |group| { scenario: group.scenario, load: group.shape.to_s, servers: group.rows.map { |row| row.to_h.compact } } }
    end

    def heading
      <<~TEXT.strip
        # #{@command}

        #{about_run("Ruby #{self.class.ruby}", "#{@options.rounds} round#{"s" if @options.rounds != 1} of #{@options.seconds} s")}

        All are up at once and loaded in turn, #{Servers::WORKERS} workers each. Figures are medians of the rounds. x: median of each round's ratio to the first way with as many threads,
        with the least and the most. CPU: µs a request in all of the server's processes.#{"\n\n**Fewer than #{Servers::ROUNDS} rounds: a first impression.**" if @options.rounds.between?(1, Servers::ROUNDS - 1)}
      TEXT
    end

    def ways = timed(@results.groups, "way")

    def threads
      "What threads cost: the first way, compared with itself with fewer.\n\n#{timed(@results.threads, "threads")}" if @results.threads.any?
    end

    def timed(groups, title)
      return if groups.empty?

      rows = groups.flat_map { |group| group.rows.each_with_index.map { |row, i| [i.zero? ? group.scenario : "", i.zero? ? group.shape.to_s : "", *figures(row)] } }
      align(["page", "load", title, "CPU µs", "x", "requests/s", "x", "p99 ms", "x", ""], rows, texts: [0, 1, 2, 9])
    end

    def figures(row)
      return [row.server, *refused(row.wrong, 6), ""] if row.wrong

      [row.server, rounded(row.cpu), spread(row.cpu_ratio, row.cpu_spread), rounded(row.rate), spread(row.rate_ratio, row.rate_spread), milliseconds(row.p99), factor(row.p99_ratio),
       row.generator_busy > BUSY ? "generator #{(row.generator_busy * 100).round} % busy" : ""]
    end

    def memory
      return if @options.requests.zero?

      rows = @results.memory.map { |one| [one.app, one.threads.to_s, one.way, megabytes(one.worker), factor(one.worker_ratio), megabytes(one.proportional), format("%.2f", one.boot)] }
      "Memory after #{rounded(@options.requests)} requests: a worker's private dirty, and the proportional shares of all processes, in MB.\n\n" +
        align(["app", "threads", "way", "worker", "x", "all shares", "boot s"], rows, texts: [0, 2])
    end

    def absent
      "Not measured:\n\n#{@results.absent.map { |what, why| "- #{what}: #{why.lines.map(&:strip).join(" / ")}" }.join("\n")}" if @results.absent.any?
    end
  end
end
