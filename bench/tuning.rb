# frozen_string_literal: true

# `bin/bench tuning`: what settings of Paceline do to CPU time, latency and memory. Each ARGUMENT is one way to serve. All are up at once, each with each number
# of threads, and loaded in turn, each round in another order. `--combine` makes the tables of several Rubies.
#
#   bin/bench tuning
#   bin/bench tuning --pages list,plain --threads 5 -- "" "--malloc-arenas 2" "RUBY_GC_HEAP_GROWTH_FACTOR=1.1" puma
#   bin/bench tuning --pages issues --rounds 0 -- "" "--warm-up {paths}"
#   bin/trixie run bin/bench tuning --pages list,plain,json
#   bin/bench tuning --combine bench/results/tuning-*.json
require_relative "lib/apps"
require_relative "lib/invocation"
require_relative "lib/machine"
require_relative "lib/progress"
require_relative "serve/contest"
require_relative "tuning/combined"
require_relative "tuning/found"
require_relative "tuning/options"
require_relative "tuning/report"

module Bench
  class Tuning
    def initialize(options, command)
      @options = options
      @command = command
    end

    def run
      Invocation.need_paceline("tuning")
      Invocation.interrupt_by_signals
      facts, versions = Machine.facts, Machine.versions
      scenarios = TuningPages.scenarios(@options.pages, @options.shape, @options.requests)
      ways = @options.threads.flat_map { |threads| @options.ways.map { |way| TuningWay.new(way, threads) } }
      @progress = Progress.new(@options.pages.size * ways.size * @options.rounds)
      contests = scenarios.to_h { |app, some| [app, contest(app, some, ways)] }
      found = TuningFound.new(contests, @options.ways, @options.threads)
      report = TuningReport.new(found, facts: facts, versions: versions, options: @options, command: @command, clock: @progress)
      @progress.say ""
      puts report.markdown
      puts "\nWritten to #{report.write(@options.output)}.md and .json"
    end

    private

    def contest(app, scenarios, ways)
      @progress.say "Preparing #{app}"
      paths = TuningPages::MEMORY.fetch(app)
      entries = ways.map { |way| [way.server(paths), scenarios] }
      Contest.new(Apps.prepare(app), entries, @options, baseline: ways.first.name, counts: false) { |who, what, done| @progress.told(who, what, done) }.run
    end
  end
end

if $PROGRAM_NAME == __FILE__
  options = Bench::TuningOptions.parse(ARGV.dup)
  Bench::TuningCombined.main("tuning", options) { Bench::Tuning.new(options, ["bin/bench tuning", *ARGV].join(" ")).run }
end
