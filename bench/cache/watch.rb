# frozen_string_literal: true

# What Redmine costs while the automatic page cache watches it. Two processes that are alike differ by as much as is looked for here, so
# the servers are started afresh for each round, run at the same time, and get short bursts in turn: the machine is as fast for one as for the
# other. The server that is off is there twice: how far its two copies are apart, nothing else can be told from.
require "fileutils"
require "json"
require "open3"
require_relative "sections"

module Bench
  # Redmine's front page for somebody who is logged in, which the application answers each time.
  class CacheWatch < CacheSection
    SHAPE = Shape.new(4, true)
    OFF, TWIN, WATCH = "off", "off again", "watch"
    OFF_SETTINGS = "page_cache = false\n"
    WAYS = { OFF => OFF_SETTINGS, TWIN => OFF_SETTINGS, WATCH => "#{OFF_SETTINGS}[auto_cache]\nmode = \"watch\"\n" }.freeze
    PAGE = "/"
    SCENARIO = "redmine"
    # So many are watched in any case, and then those of half a second in twenty (caching/auto/samples.rs): before that nothing is measured.
    FIRST = 300
    # Of all requests then, so many have to be watched. In one round it is chance how often such a half second is this server's turn.
    WATCHED = 0.02
    # Requests of a burst: half a second.
    BURST = 50
    private_constant :OFF_SETTINGS

    # In all orders, so that none always comes after the same other one.
    def self.in_turn(burst)
      orders = WAYS.keys.permutation.to_a
      orders[burst % orders.size]
    end

    # Requests of ROUTE (as `paceline cache advise` says it; nil: the server does not know the page) of which the application has said something.
    def self.watched(route)
      return 0 unless route

      route["requests"] - route["refusals"].select { |refusal| refusal["why"].include?("has not said") }.sum { |refusal| refusal["requests"] }
    end

    # What is wrong with the figures of rounds of which these SHARES were watched.
    def self.unwatched(shares)
      mean = shares.sum / shares.size
      mean < WATCHED ? [["only #{(mean * 100).round(1)} % of the requests were watched", nil]] : []
    end

    # The share of each round's requests that were watched.
    attr_reader :shares

    def loads = @options.rounds

    def run
      @app = Apps.prepare(:redmine)
      @counted, @shares = [], []
      cells = (1..@options.rounds).flat_map { |round| together(WAYS.to_a.rotate(round)) { |servers| measure(servers, round) } }
      cells.each { |cell| cell.failures.concat(self.class.unwatched(@shares)) if cell.server == WATCH }
      Summary.new(cells, {}, counted: @counted, order: WAYS.keys, baseline: OFF)
    end

    private

    # Serves by all of WAYS while the block runs, each from a copy of the application: they would share a control socket.
    def together(ways, servers = {}, &block)
      return yield servers if ways.empty?

      (name, settings), *rest = ways
      processes = Processes.new
      processes.own(*servers.values.map(&:pid)) do
        serving(Caches.paceline_with_app(name, settings, ""), copy(name), PAGE, processes) { |running| together(rest, servers.merge(name => running), &block) }
      end
    end

    def copy(name)
      directory = File.join(WORK, "redmine-#{name.tr(" ", "-")}")
      FileUtils.rm_rf(directory)
      FileUtils.cp_r(@app.directory, directory)
      App.new(name: :redmine, directory: directory, environment: @app.environment)
    end

    def measure(servers, round)
      loads = servers.transform_values { |running| by_session(running) }
      loads.each_value { |load| load.call(FIRST * Servers::WORKERS * 2).run }
      servers.each { |name, running| count(running, SCENARIO, SHAPE, loads[name].call(BURST * 8), family(running).keys) } if round == 1
      before = watched
      found, cpu, elsewhere = bursts(servers, loads)
      share = (watched - before).fdiv(found.fetch(WATCH).sum(&:completed))
      @shares << share
      cells = servers.keys.map { |name| cell_of(name, round, found[name], cpu[name], elsewhere) }
      @told.call("round #{round}: #{cells.map { |cell| "#{cell.server} #{cell.cpu.round} µs" }.join(", ")}, #{(share * 100).round(1)} % watched", true)
      cells
    end

    # The results of each server's bursts, the CPU seconds that its processes took meanwhile, and how many processors others took.
    def bursts(servers, loads)
      found = servers.transform_values { [] }
      before, busy, began = servers.transform_values { |running| family(running) }, Processes.machine_busy, Measurement.now
      (@options.requests / 25 / BURST).times do |burst|
        self.class.in_turn(burst).each { |name| found[name] << loads[name].call(BURST).run }
      end
      cpu = servers.to_h { |name, running| [name, Processes.cpu_seconds(before[name], family(running))] }
      others = Processes.machine_busy - busy - cpu.values.sum - found.values.flatten.sum(&:own_cpu)
      [found, cpu, [others, 0].max / (Measurement.now - began)]
    end

    def family(running) = Processes.new(running.pid).family

    def cell_of(name, round, results, cpu, elsewhere)
      requests, seconds = results.sum(&:completed), results.sum { |one| one.seconds.to_f }
      Visit::Cell.new(server: name, scenario: SCENARIO, shape: SHAPE, round: round, rate: requests / seconds,
                      p50: Arithmetic.median(results.map(&:p50)), p99: results.map(&:p99).max, cpu: Arithmetic.cpu_per_request(cpu, requests), requests: requests,
                      failures: results.flat_map(&:failures), generator_busy: results.sum(&:own_cpu) / seconds, elsewhere: elsewhere)
    end

    # A load of so many requests.
    def by_session(running)
      cookie = RedmineAuthor.session(running.port, File.join(@app.directory, "account.json"))
      kind = Kind.new("redmine", PAGE)
      ->(count) { Load.new(port: running.port, mix: [[kind, 1.0]], connections: SHAPE.connections, keep_alive: true, count: count, fields: ["Cookie: #{cookie}"], percentiles: true) }
    end

    def watched
      told, status = Open3.capture2(Servers.paceline, "cache", "advise", "--json", chdir: File.join(WORK, "redmine-#{WATCH}"))
      raise RunningServer::Failed, "paceline cache advise: #{told}" unless status.success?

      self.class.watched(JSON.parse(told)["sites"].values.flat_map { |site| site["routes"] }.find { |one| one["route"] == "GET #{PAGE}" })
    end
  end
end
