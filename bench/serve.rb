# frozen_string_literal: true

# `bin/bench serve`: Paceline and its peers serve the same applications, all up at once, and are loaded in turn (A B C A B C in each round); reports
# medians, and medians of each round's ratio to Puma. `--combine` and `--readme` put the results of several runs together, `--publish` puts them into the documents.
require_relative "lib/apps"
require_relative "serve/combined"
require_relative "serve/contest"
require_relative "lib/invocation"
require_relative "lib/machine"
require_relative "serve/options"
require_relative "lib/progress"
require_relative "serve/published"
require_relative "serve/report"
require_relative "lib/summary"

module Bench
  class Serve
    def initialize(options, command)
      @command = command
      @options = options
      @contests = {}
    end

    def run
      Invocation.need_paceline("serve") if @options.servers.any? { |server| server.name == "paceline" }
      Invocation.interrupt_by_signals
      facts, versions = Machine.facts, Machine.versions
      Servers.access_log = @options.access_log
      apps = @options.scenarios.map(&:app).uniq
      @progress = Progress.new(apps.sum { |app| entries(app).sum { |_, scenarios| loads(scenarios) } } * @options.rounds)
      tell_left_out
      apps.each { |app| compare(app) }
      report = Report.new(contests: @contests, summary: Summary.of(@contests), facts: facts, versions: versions, options: @options, command: @command, seconds: @progress.seconds)
      @progress.say ""
      puts report.markdown
      base = report.write(@options.output)
      puts "\nWritten to #{base}.md and .json"
    end

    private

    # Loads that a generator does not make.
    def tell_left_out
      @options.generators.each do |generator|
        left = @options.scenarios.select { |scenario| Scenarios.shapes(scenario, @options.connections, @options.full).none? { |shape| generator.takes?(scenario, shape) } }
        @progress.say "#{left.map(&:name).join(", ")}: not by #{generator.name}, which sends no such requests" if left.any?
      end
    end

    def compare(name)
      @progress.say "Preparing #{name}"
      @contests[name] = Contest.new(Apps.prepare(name), entries(name), @options) { |who, what, done| @progress.told(who, what, done) }.run
    end

    # Pairs of a server and the scenarios of that application that it takes part in.
    def entries(app)
      @options.servers.filter_map do |server|
        scenarios = @options.scenarios.select { |scenario| scenario.app == app && server.serves?(scenario.name) }
        [server, scenarios] if scenarios.any?
      end
    end

    def loads(scenarios)
      scenarios.sum { |scenario| Scenarios.shapes(scenario, @options.connections, @options.full).product(@options.generators).count { |shape, generator| generator.takes?(scenario, shape) } }
    end
  end
end

begin
  options = Bench::Options.parse(ARGV.dup)
  if options.publish
    changed = Bench::Published.write(Bench::Servers::HERE)
    puts changed.empty? ? "The tables are those of their results." : "Made again: #{changed.join(", ")}"
  elsif options.results
    options.results.each { |how, files| puts Bench::Published.table(how, files) }
  else
    Bench::Invocation.of_command { Bench::Serve.new(options, ["bin/bench serve", *ARGV].join(" ")).run }
  end
rescue Bench::Combined::Unusable => e
  warn "bin/bench serve: #{e.message}"
  exit 65
end
