# frozen_string_literal: true

# `bin/bench story NAME`: repeats an experiment that somebody published, beside its peers, and makes one page of all results for a browser.
require "optparse"
require "json"
require_relative "lib/invocation"
require_relative "lib/machine"
require_relative "lib/progress"
require_relative "story/catalogue"
require_relative "story/page"
require_relative "story/report"

module Bench
  class StoryCommand
    RESULTS = File.join(Servers::HERE, "bench/results")
    QUICK = File.join(Servers::HERE, "tmp/bench/results")
    # Since a story began.
    Clock = Struct.new(:began) do
      def self.start = new(Process.clock_gettime(Process::CLOCK_MONOTONIC))
      def seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
    end

    def initialize(arguments)
      @command = ["bin/bench story", *arguments].join(" ")
      @setting = StorySetting.new(rounds: Servers::ROUNDS, seconds: 2.0, quick: false, place: File.join(Servers::HERE, "tmp/bench"), output: RESULTS)
      names = parser.parse(arguments)
      raise ArgumentError, "name a story, or --all; there are #{Stories::NAMES.join(", ")}" if names.empty? && !@all && !@page

      @stories = @all ? Stories.all : Stories.named(names)
    rescue OptionParser::ParseError, ArgumentError => e
      warn "bin/bench story: #{e.message}"
      exit 64
    end

    # The exit status: 1 if a story could not be measured at all.
    def run
      return page if @stories.empty?

      prepare
      told = @stories.map { |story| story.new(@setting) { |who, what, done| @progress.told("#{story.words.name}, #{who}", what, done) } }
      @progress = Progress.new(told.sum { |story| story.sections.values.sum(&:steps) })
      measured = told.map { |story| measure(story) }
      page
      measured.all? ? 0 : 1
    end

    private

    def prepare
      Invocation.need_paceline("story")
      @setting.processes = Processes.new
      @setting.processes.adopt_orphans
      Invocation.interrupt_by_signals
      FileUtils.mkdir_p(@setting.place)
      @facts = Machine.facts
    end

    # Whether anything of it was.
    def measure(story)
      parts, absent = [], {}
      report = StoryReport.new(story.class.words, parts, absent, facts: @facts, versions: Machine.versions(story.class.packages), options: @setting, command: @command, clock: Clock.start)
      story.sections.each do |name, section|
        run_section(name, section, parts, absent)
        # What was measured is there also when a later section is interrupted.
        report.write(@setting.output) if parts.any?
      end
      @progress.say ""
      return @progress.say("#{story.class.words.name}: nothing was measured: #{absent.values.uniq.join("; ")}") if parts.empty?

      puts report.markdown
      puts "\nWritten to #{report.write(@setting.output)}.md and .json"
      true
    end

    # A section that can't be measured is named with its reason, and the others go on. SystemExit: an application that can't be prepared.
    def run_section(name, section, parts, absent)
      with_figures, without = section.run.partition { |part| part.rows.any?(&:figures) }
      parts.concat(with_figures)
      without.each { |part| absent[part.title] = part.rows.map { |row| "#{row.name}: #{row.wrong}" }.join("; ") }
      section.absent.each { |way, why| absent["#{name}, #{way}"] = why }
    rescue StandardError, SystemExit => e
      absent[name] = e.message.lines.map(&:strip).reject(&:empty?).first(2).join(" / ")
      @progress.skip(section.steps)
      @progress.say "#{name}: not run: #{e.class}: #{e.message}"
    end

    def page
      results = Dir[File.join(@setting.output, "story-*.json")].map { |path| JSON.parse(File.read(path)) }
      FileUtils.mkdir_p(@setting.output)
      path = File.join(@setting.output, "stories.html")
      File.write(path, StoryPage.new(results, Stories::NAMES).html)
      puts "The page: #{path}"
      0
    end

    def parser
      OptionParser.new do |it|
        it.banner = "Usage: bin/bench story [options] NAME ...\n       bin/bench story --list"
        it.separator "\nStories:"
        Stories.list.each_line { |line| it.separator "    #{line.chomp}" }
        it.separator "\nOptions:"
        it.on("--list", "The stories, and nothing else") do
          puts Stories.list
          exit
        end
        it.on("--all", "All of them") { @all = true }
        it.on("--page", "Measures nothing: makes the page of the results that are there") { @page = true }
        it.on("--quick", "One short round; the result goes to tmp/bench/results") { @setting.rounds, @setting.seconds, @setting.quick, @setting.output = 1, 0.5, true, QUICK }
        it.on("--rounds N", Integer, "In which all take turns (#{Servers::ROUNDS}; with fewer the page calls it a first impression)") { |n| @setting.rounds = n }
        it.on("--seconds N", Float, "Of each load (2.0)") { |n| @setting.seconds = n }
        it.on("--output DIR", "Where the results and the page go (bench/results)") { |directory| @setting.output = File.expand_path(directory) }
        Invocation.add_help(it)
      end
    end
  end
end

Bench::Invocation.of_command { exit Bench::StoryCommand.new(ARGV).run }
