# frozen_string_literal: true

# Several servers serve one application, all up at once, and are loaded in turn: each load by one server after the other, then the next load, then the
# next round, in another order. A server that is not loaded is idle. A server with a wrong answer gets no figures.
require_relative "../lib/servers"
require_relative "../lib/visit"

module Bench
  class Contest
    # Rounds in which system calls and context switches are counted, after those that are timed.
    COUNTED = 3

    # CELLS, COUNTED: of Visit; STARTED: {server => {boot:, memory:}}; TRACES: {server => {scenario => what strace saw}};
    # ABSENT: {server => why it could not be measured, or not to its end}.
    attr_reader :cells, :counted, :started, :traces, :absent

    # ENTRIES: a server, the scenarios that it takes part in, and the app as it serves it, if not APP. The block is told of each step. PROBE is
    # called with each visit and the round, before its loads. COUNTS: whether system calls are counted and traced when all rounds are over.
    def initialize(app, entries, options, baseline: Servers::BASELINE, probe: nil, counts: true, &told)
      @app = app
      @entries = entries
      @options = options
      @baseline = baseline
      @probe = probe
      @counts = counts
      @told = told
      @cells, @counted = [], []
      @started, @traces, @absent = {}, {}, {}
      @visits = []
    end

    def run
      start
      (1..@options.rounds).each do |round|
        self.class.order(@visits, round).each { |visit| attempt(visit) { @probe.call(visit, round) } } if @probe
        each_load(round, generators) { |visit, *load| @cells << visit.measure(*load) }
      end
      count if @counts
      self
    ensure
      @visits.each(&:close)
    end

    # Names of all of them.
    def servers
      @entries.map { |server, _| server.name }
    end

    # VISITS in the order of this round: by chance, so that none always follows the same one, and the same in each run.
    def self.order(visits, round)
      visits.shuffle(random: Random.new(round))
    end

    private

    # The baseline first: where a page is not known beforehand, its answer is what the others' must be.
    def start
      @entries.partition { |server, _| server.name == @baseline }.flatten(1).each do |server, scenarios, app|
        next @absent[server.name] = "not installed: there is no `#{server.missing}`" if server.missing

        visit = Visit.new(server, app || @app, scenarios, @options) { |what, done| @told.call("#{@app.name}, #{server.name}", what, done) }
        @visits << visit
        attempt(visit) { @started[server.name] = visit.start }
      end
      @visits.sort_by! { |visit| servers.index(visit.server.name) }
    end

    def generators = @options.generators || [Generators::OURS]

    # Each load by one generator to one server after the other, then by the next generator.
    def each_load(round, generators)
      scenarios = @visits.flat_map(&:scenarios).uniq
      scenarios.each do |scenario|
        takers = @visits.select { |visit| visit.scenarios.include?(scenario) }
        (takers.first&.shapes(scenario) || []).product(generators).each do |shape, generator|
          next unless generator.takes?(scenario, shape)

          self.class.order(takers, round).each { |visit| yield visit, scenario, shape, round, generator }
        end
      end
    end

    # Under the first generator alone.
    def count
      (1..[COUNTED, @options.rounds].min).each { |round| each_load(round, generators.first(1)) { |visit, *load| @counted << visit.count(*load) } }
      @visits.dup.each { |visit| attempt(visit) { trace(visit) } }
    end

    def trace(visit)
      @traces[visit.server.name] = visit.trace
      visit.check
    end

    # A server that fails is left out from then on, and all its loads say why.
    def attempt(visit)
      yield
    rescue RunningServer::Failed, SystemCallError, IOError, Timeout::Error => e
      @visits.delete(visit)
      visit.close
      fail_all(visit, e.message)
    end

    def fail_all(visit, why)
      @absent[visit.server.name] = why
      @told.call("#{@app.name}, #{visit.server.name}", "no figures: #{why.lines.first}", false)
      visit.scenarios.each do |scenario|
        visit.shapes(scenario).product(generators).each do |shape, generator|
          next unless generator.takes?(scenario, shape)

          @cells << Visit::Cell.new(server: visit.server.name, scenario: scenario.name, shape: shape, generator: generator.name, round: 1, failures: [[why.lines.first.to_s.strip, nil]])
        end
      end
    end
  end
end
