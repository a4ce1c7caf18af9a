# frozen_string_literal: true

# `bin/bench serve`: starts Paceline and its peers one after another, round by round (A B C A B C), on the same applications,
# loads them, and reports medians with ratios to Puma.
require_relative "lib/apps"
require_relative "lib/machine"
require_relative "lib/options"
require_relative "lib/processes"
require_relative "lib/progress"
require_relative "lib/report"
require_relative "lib/summary"
require_relative "lib/visit"

module Bench
  class Serve
    def initialize(arguments)
      @command = ["bin/bench serve", *arguments].join(" ")
      @options = Options.parse(arguments.dup)
      @processes = Processes.new
      @cells = []
      @visits = {}
      @traces = {}
      @absent = {}
    end

    def run
      unless File.executable?(Servers.paceline) || @options.servers.none? { |server| server.name == "paceline" }
        abort "bin/bench serve: there is no #{Servers.paceline}: run `cargo build --release --locked`, or set PACELINE_BIN"
      end
      @processes.adopt_orphans
      %w[TERM HUP].each { |signal| trap(signal) { raise Interrupt } }
      facts, versions = Machine.facts, Machine.versions
      apps = @options.scenarios.map(&:app).uniq
      @progress = Progress.new(apps.sum { |app| @options.servers.sum { |server| loads(app, server) } } * @options.rounds)
      apps.each { |app| compare(app) }
      report = Report.new(summary: Summary.new(@cells, @visits), traces: @traces, absent: @absent, facts: facts, versions: versions, options: @options,
                          command: @command, seconds: @progress.seconds)
      @progress.say ""
      puts report.markdown
      base = report.write(@options.output)
      puts "\nWritten to #{base}.md and .json"
    end

    private

    def compare(name)
      @progress.say "Preparing #{name}"
      app = Apps.prepare(name)
      (1..@options.rounds).each do |round|
        @options.servers.each { |server| visit(app, server, round) }
      end
    end

    def visit(app, server, round)
      scenarios = scenarios_of(app.name, server)
      who = "#{app.name}, #{server.name}"
      return if scenarios.empty?
      return @progress.skip(loads(app.name, server)) if @absent.key?(who)

      seen = Visit.new(server, app, scenarios, @processes, @options, traces: round == 1) do |what, done|
        @progress.told("round #{round}, #{who}", what, done)
      end.run(round)
      @cells.concat(seen[:cells])
      ((@visits[app.name] ||= {})[server.name] ||= []) << seen
      (@traces[server.name] ||= {}).merge!(seen[:traces]) if round == 1
    rescue RunningServer::Failed, Errno::ENOENT => e
      @absent[who] = e.message
      @progress.say "#{who}: not measured: #{e.message}"
    end

    def scenarios_of(app, server)
      @options.scenarios.select { |scenario| scenario.app == app && server.serves?(scenario.name) }
    end

    def loads(app, server)
      scenarios_of(app, server).sum { |scenario| Scenarios.shapes(scenario, @options.connections, @options.full).size }
    end
  end
end

begin
  Bench::Serve.new(ARGV).run
rescue Interrupt
  warn "\nInterrupted; every server is stopped."
  exit 130
end
