# frozen_string_literal: true

# Writes a result as Markdown, which is also what the terminal shows, and as JSON.
require "fileutils"
require "json"
require_relative "table"

module Bench
  class Report
    include Table

    BUSY = 0.85

    # TRACES: {server => {scenario => counts}}; ABSENT: {"server, app" => why it was not measured}.
    def initialize(summary:, traces:, absent:, facts:, versions:, options:, command:, seconds:)
      @summary = summary
      @traces = traces
      @absent = absent
      @facts = facts
      @versions = versions
      @options = options
      @command = command
      @seconds = seconds
    end

    def write(directory)
      FileUtils.mkdir_p(directory)
      base = File.join(directory, "serve-#{Time.now.utc.strftime("%Y%m%d-%H%M%S")}")
      File.write("#{base}.md", markdown)
      File.write("#{base}.json", "#{JSON.pretty_generate(data)}\n")
      base
    end

    def markdown
      [heading, disturbed(@summary.groups, @facts["processors"]), table, footprints, absent, setting].compact.join("\n\n") << "\n"
    end

    def data
      { command: @command, seconds: @seconds.round, machine: @facts, versions: @versions, rounds: @options.rounds, seconds_per_load: @options.seconds,
        servers: @options.servers.to_h { |server| [server.name, server.note] },
        results: @summary.groups.map { |group| { scenario: group.scenario, load: group.shape.to_s, key: group.shape.key, servers: group.rows.map { |row| row.to_h.compact } } },
        footprints: @summary.footprints.transform_values { |list| list.map(&:to_h) }, traces: @traces, not_measured: @absent }
    end

    private

    def heading
      <<~TEXT.strip
        # #{@command}

        #{@facts["date"]} · #{@facts["processors"]} x #{@facts["processor"]} · #{@options.rounds} round#{"s" if @options.rounds > 1} of #{@options.seconds} s · took #{(@seconds / 60).round(1)} min

        Medians; ratios (x) to Puma. CPU: µs a request in all of the server's processes. Writes: to the client, a response.
        Calls: system calls a request, one connection kept.
      TEXT
    end

    def table
      rows = @summary.groups.flat_map do |group|
        group.rows.each_with_index.map { |row, i| [i.zero? ? group.scenario : "", i.zero? ? group.shape.to_s : "", *figures(group, row)] }
      end
      align(["scenario", "load", "server", "requests/s", "x", "p50 ms", "p99 ms", "CPU µs", "x", "writes", "calls", ""], rows, texts: [0, 1, 2, 11])
    end

    def figures(group, row)
      return [row.server, *[""] * 8, "wrong: #{row.wrong}"] if row.wrong

      trace = @traces.dig(row.server, group.scenario)
      notes = []
      notes << "slow p99 #{milliseconds(row.slow_p99)}" if row.slow_p99
      notes << "generator #{(row.generator_busy * 100).round} % busy" if row.generator_busy > BUSY
      notes << "#{row.elsewhere.round(1)} processors busy elsewhere" if row.elsewhere > QUIET
      [row.server, rounded(row.rate), factor(row.rate_ratio), milliseconds(row.p50), milliseconds(row.p99), rounded(row.cpu), factor(row.cpu_ratio),
       trace ? rounded(trace[:writes]) : "", trace ? rounded(trace[:calls]) : "", notes.join(", ")]
    end

    def footprints
      rows = @summary.footprints.flat_map do |app, list|
        list.each_with_index.map do |one, i|
          [i.zero? ? app.to_s : "", one.server, format("%.2f", one.boot), megabytes(one.worker), factor(one.worker_ratio), megabytes(one.private_dirty),
           factor(one.private_ratio), megabytes(one.proportional)]
        end
      end
      "Boot: until the first right answer. Memory: after the warm-up, in MB; a worker's private dirty, that of all processes, and all their proportional shares.\n\n" +
        align(["app", "server", "boot s", "worker", "x", "all private", "x", "all shares"], rows, texts: [0, 1])
    end

    def absent
      "Not measured:\n\n#{@absent.map { |what, why| "- #{what}: #{why.lines.map(&:strip).join(" / ")}" }.join("\n")}" if @absent.any?
    end

    def setting
      "Versions: #{@versions.map { |name, version| [name, version].join(" ") }.join(", ")}. #{@facts["ruby"]}, Linux #{@facts["kernel"]}, " \
        "#{@facts["memory_mb"]} MB, load before #{@facts["load_before"].join(" ")}."
    end
  end
end
