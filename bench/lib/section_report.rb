# frozen_string_literal: true

# A result in sections, as Markdown, which is also what the terminal shows, and as JSON. What it says is its subclasses' (`kind`, `markdown`, `data`).
require "fileutils"
require "json"
require_relative "table"

module Bench
  class SectionReport
    include Table

    # RESULTS: {section => what was found}, as far as it was measured; CLOCK tells the seconds so far.
    def initialize(results, facts:, versions:, options:, command:, clock:)
      @results = results
      @facts = facts
      @versions = versions
      @options = options
      @command = command
      @clock = clock
      @began = Time.now.utc
    end

    # Two files, DIRECTORY/KIND-TIME.md and .json; the path without the ending.
    def write(directory)
      FileUtils.mkdir_p(directory)
      base = File.join(directory, "#{kind}-#{@began.strftime("%Y%m%d-%H%M%S")}")
      File.write("#{base}.md", markdown)
      File.write("#{base}.json", "#{JSON.pretty_generate(data)}\n")
      base
    end

    private

    # When, on what machine and how long; MORE: between them.
    def about_run(*more)
      [@facts["date"], "#{@facts["processors"]} x #{@facts["processor"]}", *more, "took #{(@clock.seconds / 60).round(1)} min"].join(" · ")
    end

    def setting
      "Versions: #{@versions.map { |name, version| "#{name} #{version}" }.join(", ")}. #{@facts["ruby"]}, Linux #{@facts["kernel"]}, #{@facts["memory_mb"]} MB, " \
        "load before #{@facts["load_before"].join(" ")}."
    end

    # What every report's JSON begins with.
    def of_run = { command: @command, seconds: @clock.seconds.round, machine: @facts, versions: @versions, options: @options.to_h }
  end
end
