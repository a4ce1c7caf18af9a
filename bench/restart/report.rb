# frozen_string_literal: true

# What `bin/bench restart` found, as Markdown, which is also what the terminal shows, and as JSON.
require "fileutils"
require "json"
require_relative "../lib/arithmetic"
require_relative "../lib/table"

module Bench
  class RestartReport
    include Table

    def initialize(seen:, absent:, facts:, versions:, options:, command:, seconds:)
      @seen = seen
      @absent = absent
      @facts = facts
      @versions = versions
      @options = options
      @command = command
      @seconds = seconds
    end

    def write(directory)
      FileUtils.mkdir_p(directory)
      base = File.join(directory, "restart-#{Time.now.utc.strftime("%Y%m%d-%H%M%S")}")
      File.write("#{base}.md", markdown)
      File.write("#{base}.json", "#{JSON.pretty_generate(data)}\n")
      base
    end

    def markdown
      [heading, busy, table, failures, absent, setting].compact.join("\n\n") << "\n"
    end

    def data
      { command: @command, seconds: @seconds.round, machine: @facts, versions: @versions, options: @options.to_h,
        ways: @seen.map { |one| one.to_h.merge(quiet: one.quiet.to_h, during: one.during.to_h) }, not_measured: @absent }
    end

    private

    def heading
      <<~TEXT.strip
        # #{@command}

        #{@facts["date"]} · #{@facts["processors"]} x #{@facts["processor"]} · took #{(@seconds / 60).round(1)} min

        #{@options.clients} clients, half of them on kept connections, #{@options.think_ms} ms between an answer and the next request. The application takes
        #{@options.boot_ms} ms of processor time to load and #{@options.work_ms} ms to answer. Failed: of all requests, those without the right answer; k + n: on kept and on new
        connections. Milliseconds without a restart and during one, where none failed; x: p99 during to p99 without. New code: seconds until
        it answered first, median and longest. Memory of all processes, before and at most: private dirty, and proportional shares (Pss).
      TEXT
    end

    def busy
      elsewhere = Arithmetic.median(@seen.map(&:elsewhere))
      "**Other work took #{elsewhere.round(1)} of #{@facts["processors"]} processors meanwhile (median): don't rely on times.**" if elsewhere && elsewhere >= Table::QUIET
    end

    def table
      head = ["server", "restart", "restarts", "requests", "failed", "k + n", "p50", "p99", "p50 during", "p99 during", "longest", "x", "new code s", "private MB", "at most", "shares MB", "at most"]
      align(head, @seen.map { |one| row(one) }, texts: [0, 1])
    end

    def row(one)
      quiet, during = one.quiet, one.during
      failed = one.failed_kept + one.failed_new
      switched = one.switched.empty? ? "-" : format("%.1f, %.1f", Arithmetic.median(one.switched), one.switched.max)
      [one.server, one.title, one.restarts.to_s, rounded(quiet.requests + during.requests + failed), failed.to_s, "#{one.failed_kept} + #{one.failed_new}",
       *times([quiet.p50, quiet.p99], one.failed_quiet), *times([during.p50, during.p99, during.max], failed - one.failed_quiet),
       failed.zero? ? factor(Arithmetic.ratio(during.p99, quiet.p99)) : "-", switched, *one.memory_before.zip(one.memory_peak).flatten.map { |bytes| megabytes(bytes) }]
    end

    # Where requests failed, times of those that did not would tell half of it.
    def times(seconds, failed)
      failed.zero? ? seconds.map { |one| milliseconds(one) } : ["#{failed} failed", *["-"] * (seconds.size - 1)]
    end

    def failures
      lines = @seen.flat_map do |one|
        quiet = one.failed_quiet.positive? ? ["#{one.failed_quiet} of them while nothing was restarted"] : []
        statuses = one.statuses.reject { |status, _| status.zero? }.map { |status, count| "the command ended with #{status} #{count} times" }
        missing = one.restarts - one.switched.size
        never = missing.positive? && one.switched.any? ? ["#{missing} times the new version never answered"] : []
        told = one.failures.map { |what, count| "#{count} x #{what}" } + quiet + statuses + never
        told.empty? ? [] : ["- #{one.server}, #{one.title}: #{told.join("; ")}"]
      end
      "What failed:\n\n#{lines.join("\n")}" if lines.any?
    end

    def absent
      "Not measured:\n\n#{@absent.map { |what, why| "- #{what}: #{why.lines.map(&:strip).join(" / ")}" }.join("\n")}" if @absent.any?
    end

    def setting
      "Servers: #{@seen.map { |one| "#{one.server}: #{one.note}" }.uniq.join("; ")}.\n\n" \
        "Versions: #{@versions.map { |name, version| [name, version].join(" ") }.join(", ")}. #{@facts["ruby"]}, Linux #{@facts["kernel"]}, " \
        "#{@facts["memory_mb"]} MB, load before #{@facts["load_before"].join(" ")}."
    end
  end
end
