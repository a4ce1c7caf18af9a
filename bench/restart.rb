# frozen_string_literal: true

# `bin/bench restart`: Paceline and its peers are restarted under load, by each way they have; counts the requests that fail, and
# compares times with those without a restart.
require "optparse"
require_relative "lib/invocation"
require_relative "lib/machine"
require_relative "lib/processes"
require_relative "lib/progress"
require_relative "restart/report"
require_relative "restart/visit"
require_relative "restart/ways"

module Bench
  RestartOptions = Struct.new(:ways, :restarts, :failing, :clients, :think_ms, :boot_ms, :work_ms, :output, keyword_init: true)

  class Restart
    def initialize(options, command)
      @options = options
      @command = command
      @processes = Processes.new
      @seen = []
      @absent = {}
    end

    def run
      Invocation.need_paceline("restart")
      @processes.adopt_orphans
      Invocation.interrupt_by_signals
      facts, versions = Machine.facts, Machine.versions
      @progress = Progress.new(@options.ways.sum { |way| count(way) })
      @options.ways.each { |way| visit(way) }
      report = RestartReport.new(seen: @seen, absent: @absent, facts: facts, versions: versions, options: @options.dup.tap { |it| it.ways = it.ways.map(&:name) },
                                 command: @command, seconds: @progress.seconds)
      @progress.say ""
      puts report.markdown
      puts "\nWritten to #{report.write(@options.output)}.md and .json"
    end

    private

    def count(way)
      return @options.restarts if way.good?

      way.paceline? ? @options.failing : 1
    end

    def visit(way)
      return miss(way, "this paceline has no `#{way.needs}`") unless offered?(way.needs)

      @seen << RestartVisit.new(way, @processes, @options) { |what, done| @progress.told(way.name, what, done) }.run
    rescue RunningServer::Failed, Errno::ENOENT => e
      miss(way, e.message)
    end

    def miss(way, why)
      @absent["#{way.server.name}, #{way.title}"] = why
      @progress.skip(count(way))
      @progress.say "#{way.name}: not measured: #{why}"
    end

    def offered?(word)
      @help ||= Machine.output(Servers.paceline, "--help")
      word.nil? || @help.match?(/^  #{word}\b/)
    end
  end
end

ways = Bench::RestartWays.all
options = Bench::RestartOptions.new(ways: ways, restarts: 20, failing: 3, clients: 25, think_ms: 100, boot_ms: 1500, work_ms: 5,
                                    output: File.join(Bench::Servers::HERE, "bench/results"))
command = ["bin/bench restart", *ARGV].join(" ")
parser = OptionParser.new do |it|
  it.banner = "Usage: bin/bench restart [options] [WAY ...]"
  it.separator "\nWays (all, if none is named):"
  ways.each { |way| it.separator format("    %-18s %s: %s", way.name, way.server.name, way.title) }
  it.separator "\nOptions:"
  it.on("--quick", "Three restarts by each way; the result goes to tmp/bench/results") do
    options.restarts, options.failing, options.output = 3, 1, File.join(Bench::Servers::HERE, "tmp/bench/results")
  end
  it.on("--restarts N", Integer, "By each way (20)") { |n| options.restarts = n }
  it.on("--failing N", Integer, "New versions that fail, are slow or answer 500 (3; peers get one that does not load)") { |n| options.failing = n }
  it.on("--clients N", Integer, "At once (25)") { |n| options.clients = n }
  it.on("--think MS", Integer, "Between an answer and the same client's next request (100; with 0 nothing is left of the processors)") { |n| options.think_ms = n }
  it.on("--boot MS", Integer, "Processor time that the application takes to load (1500)") { |n| options.boot_ms = n }
  it.on("--work MS", Integer, "What a request takes, two fifths of it processor time (5)") { |n| options.work_ms = n }
  it.on("--output DIR", "Where the JSON and Markdown go (bench/results)") { |dir| options.output = dir }
  Bench::Invocation.add_help(it)
end
begin
  parser.parse!(ARGV)
  options.ways = ARGV.map { |name| ways.find { |way| way.name == name } or raise OptionParser::InvalidArgument, name } if ARGV.any?
  Bench::Invocation.of_command { Bench::Restart.new(options, command).run }
rescue OptionParser::ParseError => e
  warn "bin/bench restart: #{e.message}"
  exit 64
end
