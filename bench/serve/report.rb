# frozen_string_literal: true

# Writes a result as Markdown, which is also what the terminal shows, and as JSON.
require "fileutils"
require "json"
require_relative "../lib/generators"
require_relative "../lib/kernel_counts"
require_relative "../lib/servers"
require_relative "../lib/table"

module Bench
  class Report
    include Table

    # CONTESTS: {app => Contest}.
    def initialize(contests:, summary:, facts:, versions:, options:, command:, seconds:)
      @summary = summary
      @traces = contests.values.map(&:traces).reduce({}) { |all, some| all.merge(some) { |_, one, other| one.merge(other) } }
      @absent = contests.flat_map { |app, contest| contest.absent.map { |server, why| ["#{app}, #{server}", why] } }.to_h
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
      { command: @command, paired: true, generators: generators, access_log: @options.access_log ? "on" : "off", seconds: @seconds.round, machine: @facts, versions: @versions, rounds: @options.rounds, seconds_per_load: @options.seconds,
        servers: @options.servers.to_h { |server| [server.name, server.note] },
        results: @summary.groups.map { |group| { scenario: group.scenario, load: group.shape.to_s, key: group.shape.key, generator: group.generator, servers: group.rows.map { |row| row.to_h.compact } } },
        footprints: @summary.footprints.transform_values { |list| list.map(&:to_h) }, traces: @traces, not_measured: @absent,
        not_counted: KernelCounts.missing }
    end

    private

    def heading
      <<~TEXT.strip
        # #{@command}

        #{@facts["date"]} · #{@facts["processors"]} x #{@facts["processor"]} · #{@options.rounds} round#{"s" if @options.rounds > 1} of #{@options.seconds} s · took #{(@seconds / 60).round(1)} min

        All servers are up at once and loaded in turn. Figures are medians of the rounds. x: median of each round's ratio to Puma, with the least and the
        most. CPU: µs a request in all of the server's processes. Calls, switches: system calls and context switches a request, of all of them, in a pass
        of its own, under the first generator. Writes: to the client, a response.#{"\n\n**Fewer than #{Servers::ROUNDS} rounds: a first impression.**" if @options.rounds < Servers::ROUNDS}#{"\n\n#{uncounted}" if KernelCounts.missing}

        Load by #{generators.map { |name, version| [name, version].compact.join(" ") }.join(", ")}. Access log: #{@options.access_log ? "on, as each server comes (Paceline writes one, to a file)" : "off"}.
      TEXT
    end

    # {name => version}
    def generators = (@options.generators || [Generators::OURS]).to_h { |generator| [generator.name, generator.version] }

    def uncounted
      "System calls are not counted: #{KernelCounts.missing}. Context switches: from /proc, without threads that ended."
    end

    def table
      rows = @summary.groups.flat_map do |group|
        group.rows.each_with_index.map { |row, i| [i.zero? ? group.scenario : "", i.zero? ? group.shape.to_s : "", i.zero? ? group.generator.to_s : "", *figures(group, row)] }
      end
      align(["scenario", "load", "generator", "server", "requests/s", "x", "p50 ms", "p99 ms", "CPU µs", "x", "calls", "switches", "writes", ""], rows, texts: [0, 1, 2, 3, 13])
    end

    def figures(group, row)
      return [row.server, *refused(row.wrong, 9), ""] if row.wrong

      trace = @traces.dig(row.server, group.scenario)
      [row.server, rounded(row.rate), spread(row.rate_ratio, row.rate_spread), milliseconds(row.p50), milliseconds(row.p99), rounded(row.cpu), spread(row.cpu_ratio, row.cpu_spread),
       precise(row.calls), precise(row.switches), trace ? rounded(trace[:writes]) : "", notes(row)]
    end

    def notes(row)
      notes = []
      notes << "slow p99 #{milliseconds(row.slow_p99)}" if row.slow_p99
      notes << "generator #{(row.generator_busy * 100).round} % busy" if row.generator_busy > BUSY
      notes << "#{row.elsewhere.round(1)} processors busy elsewhere" if row.elsewhere > QUIET
      notes.join(", ")
    end

    def precise(number) = number ? (number < 100 ? format("%.2f", number) : rounded(number)) : ""

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
