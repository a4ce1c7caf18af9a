# frozen_string_literal: true

# What the commands share that measure in sections: which are wanted, how far it is, and a report that is written after each one. It measures nothing.
#
#   class Xml < SectionCommand
#     CALLED, SECTIONS, PACKAGES, REPORT = "xml", %w[writers responses], %w[ruby-ox], XmlReport
#     def defaults = Options.new(rounds: 7, output: RESULTS)
#     def describe(parser) = parser.on("--rounds N", Integer, "In which all take turns (7)") { |n| @options.rounds = n }
#     def section(name, told) = XmlContest.new(name, @options, &told)
#   end
require "optparse"
require_relative "invocation"
require_relative "machine"
require_relative "processes"
require_relative "progress"
require_relative "servers"

module Bench
  class SectionCommand
    RESULTS = File.join(Servers::HERE, "bench/results")
    QUICK = File.join(Servers::HERE, "tmp/bench/results")
    # What keeps a section from being measured, and only that one.
    UNMEASURED = [].freeze

    def initialize(arguments)
      @command = ["bin/bench #{self.class::CALLED}", *arguments].join(" ")
      @options = defaults
      rest = parser.parse(arguments)
      @names = rest.empty? ? self.class::SECTIONS : rest
      raise ArgumentError, "there are #{self.class::SECTIONS.join(", ")}" unless (@names - self.class::SECTIONS).empty?

      check
    rescue OptionParser::ParseError, ArgumentError => e
      warn "bin/bench #{self.class::CALLED}: #{e.message}"
      exit 64
    end

    def run
      prepare
      Invocation.interrupt_by_signals
      facts, versions, found = Machine.facts, Machine.versions(self.class::PACKAGES), {}
      sections = @names.to_h { |name| [name, section(name, ->(what, done) { @progress.told(name, what, done) })] }
      @progress = Progress.new(sections.values.sum(&:steps))
      report = self.class::REPORT.new(found, facts: facts, versions: versions, options: @options, command: @command, clock: @progress)
      base = nil
      sections.each do |name, section|
        found[name] = section.run
        # What was measured is there also when a later section is interrupted.
        base = report.write(@options.output)
      rescue *self.class::UNMEASURED => e
        @progress.say "#{name}: not measured: #{e.message}"
        found.delete(name)
      end
      return unless base

      @progress.say ""
      puts report.markdown
      puts "\nWritten to #{base}.md and .json"
    end

    private

    # Raises ArgumentError if the options do not fit each other.
    def check; end

    # What the sections named need.
    def prepare = Invocation.need_paceline(self.class::CALLED)

    # The servers' descendants are counted, too.
    def processes = @processes ||= Processes.new.tap(&:adopt_orphans)

    def parser
      OptionParser.new do |it|
        it.banner = "Usage: bin/bench #{self.class::CALLED} [options] [#{self.class::SECTIONS.join(" ")}]"
        describe(it)
        it.on("--output DIR", "Where the JSON and Markdown go (bench/results)") { |directory| @options.output = directory }
        Invocation.add_help(it)
      end
    end
  end
end
