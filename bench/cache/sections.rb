# frozen_string_literal: true

# What `bin/bench cache` measures, a class each: hits, hits beside misses, hits among many keys, Redmine by the stubborn rule.
require "net/http"
require_relative "../lib/apps"
require_relative "../lib/arithmetic"
require_relative "../lib/caches"
require_relative "../lib/load"
require_relative "../lib/measurement"
require_relative "redmine_author"
require_relative "../lib/running_server"
require_relative "../lib/scenarios"
require_relative "../lib/summary"
require_relative "../lib/visit"

module Bench
  # What the sections share: servers in front of each other, and a load made a row.
  class CacheSection
    WORK = File.join(Apps::WORK, "servers")
    PAUSE = 0.5

    # The block is told of each step, and whether a load is done.
    def initialize(processes, options, &told)
      @processes = processes
      @options = options
      @told = told
    end

    private

    # Serves while the block runs.
    def serving(server, app, ready, processes = @processes)
      @told.call("#{server.name} starts", false)
      running = RunningServer.new(server, app, processes, WORK, ready)
      yield running.start
    ensure
      running&.stop
    end

    # The same, but its processes are not the measured server's.
    def behind(server, app, ready)
      serving(server, app, ready, Processes.new) { |running| @processes.own(running.pid) { yield running } }
    end

    def with_origin(&block)
      behind(Caches.origin, App.new(directory: Servers::HERE, environment: {}), "/1k", &block)
    end

    # Requests the origin has had.
    def asked(origin)
      Net::HTTP.get("127.0.0.1", "/requests", origin.port)[/^ \d+ \d+ (\d+)/, 1].to_i
    end

    # Every answer must be a hit, unless HIT is nil.
    def hits(running, kind, shape, seconds = @options.seconds, hit = running.server.hit, keys: nil)
      Load.new(port: running.port, mix: [[kind, 1.0]], connections: shape.connections, keep_alive: shape.keep_alive, seconds: seconds, hit: hit, keys: keys, percentiles: true)
    end

    # What of the load between two looks reached the origin.
    def without_origin(origin)
      before = asked(origin)
      lambda do
        misses = asked(origin) - before - 1
        misses.positive? ? [["answered by the origin", misses]] : []
      end
    end

    # COUNTS: it is one of the loads that were announced.
    def cell(server, scenario, shape, round, generator, counts: true)
      measured = Measurement.of(generator, @processes)
      result = measured.result
      failures = measured.failures + (block_given? ? yield : [])
      @told.call("#{scenario}, #{server.name}, #{shape}: #{failures.empty? ? "#{measured.rate.round} requests/s" : failures}", counts)
      Visit::Cell.new(server: server.name, scenario: scenario, shape: shape, round: round, rate: measured.rate, p50: result.p50, p99: result.p99,
                      cpu: Arithmetic.cpu_per_request(measured.cpu, result.completed), requests: result.completed, failures: failures,
                      generator_busy: measured.generator_busy, elsewhere: measured.elsewhere)
    end

    # The system calls and context switches of a request, in a pass of its own. `run` has made @counted. PIDS: of the server, where others run.
    def count(running, scenario, shape, load, pids = running.processes.keys)
      result, counts = KernelCounts.new(pids).during { Measurement.generate(load, @processes) }
      each = ->(number) { number&.fdiv(result.completed) }
      @counted << Visit::Counted.new(server: running.server.name, scenario: scenario, shape: shape, calls: each[counts.calls], switches: each[counts.switches], failures: result.failures)
    end

    def chosen(servers)
      servers.select { |server| @options.servers.nil? || @options.servers.any? { |name| server.name.start_with?(name) } }
    end
  end

  # Hits beside nginx and Varnish, in front of the same origin.
  class CacheHits < CacheSection
    SHAPES = [Shape.new(64, true), Shape.new(25, false)].freeze

    def loads = @options.rounds * chosen(Caches.before(0)).size * Caches::OBJECTS.size * SHAPES.size

    def run
      cells = with_origin do |origin|
        (1..@options.rounds).flat_map do |round|
          chosen(Caches.before(origin.port)).flat_map { |server| visit(server, origin, round) }
        end
      end
      Summary.new(cells, {}, baseline: Caches::BASELINE)
    end

    private

    def visit(server, origin, round)
      serving(server, App.new(directory: Servers::HERE, environment: {}), "/1k") do |running|
        Caches::OBJECTS.flat_map do |name, bytes|
          kind = Kind.new(name, "/#{name}", expected: bytes)
          # The first answers are no hits.
          Measurement.generate(hits(running, kind, SHAPES[0], PAUSE, nil), @processes)
          SHAPES.map { |shape| measure(running, origin, kind, shape, round) }
        end
      end
    end

    def measure(running, origin, kind, shape, round)
      cell(running.server, kind.name, shape, round, hits(running, kind, shape), &without_origin(origin))
    end
  end

  # Hits alone, and while other clients ask the application of the same server for what may not be kept.
  class CacheBesideMisses < CacheSection
    CLIENTS = 25
    SHAPES = [Shape.new(1, true), Shape.new(25, true)].freeze
    ALONE, BESIDE = "hits alone", "hits beside misses"

    def loads = @options.rounds * chosen(servers(0)).size * SHAPES.size * 2

    def run
      app = Apps.prepare(:rack)
      cells = (1..@options.rounds).flat_map do |round|
        chosen(servers(0)).flat_map { |server| stacked(server.name, app) { |running| visit(running, round) } }
      end
      Summary.new(cells, {}, baseline: Caches::BASELINE)
    end

    private

    def servers(upstream)
      [Caches.paceline_with_app("paceline", "", "serves the application itself"), Caches.nginx_before("cache.nginx.conf", upstream), Caches.varnish_before("cache.vcl", upstream)]
    end

    def stacked(name, app, &block)
      return serving(servers(0)[0], app, "/kept", &block) if name == "paceline"

      puma = Servers.named(["puma"])[0]
      behind(puma, app, "/kept") { |running| serving(servers(running.port).find { |server| server.name == name }, app, "/kept", &block) }
    end

    def visit(running, round)
      kind = Kind.new("kept", "/kept", expected: Caches::KILOBYTE)
      Measurement.generate(hits(running, kind, SHAPES[1], PAUSE, nil), @processes)
      SHAPES.flat_map do |shape|
        [cell(running.server, ALONE, shape, round, hits(running, kind, shape)),
         beside_misses(running) { cell(running.server, BESIDE, shape, round, hits(running, kind, shape)) }]
      end
    end

    # Asks for /burn while the block runs.
    def beside_misses(running)
      misses = Load.new(port: running.port, mix: [[Kind.new("burn", "/burn"), 1.0]], connections: CLIENTS, keep_alive: true, seconds: @options.seconds + 2 * PAUSE)
      found = nil
      result = misses.in_child do |pid, output|
        @processes.own(pid) do
          sleep PAUSE
          found = yield
          output.read
        end
      end
      found.failures = found.failures + result.failures
      found
    end
  end

  # Hits on keys drawn at random, of ever more that are kept.
  class CacheKeys < CacheSection
    SHAPE = Shape.new(64, true)

    def loads = @options.keys.size * (@options.rounds + 1)

    def run
      cells, @memory = [], {}
      with_origin do |origin|
        server = Caches.before(origin.port, size: "8GB").first
        serving(server, App.new(directory: Servers::HERE, environment: {}), "/1k") do |running|
          empty = running.memory[:private_dirty]
          @options.keys.sort.each do |keys|
            fill(running, keys)
            @memory[keys] = (running.memory[:private_dirty] - empty).to_f / keys
            (1..@options.rounds).each { |round| cells << measure(running, origin, keys, round) }
          end
        end
      end
      [Summary.new(cells, {}), @memory]
    end

    private

    def kind = Kind.new("key", "/key/", expected: Caches::KILOBYTE)

    def fill(running, keys)
      result = Measurement.generate(hits(running, kind, SHAPE, 3600, nil, keys: { each: keys }), @processes)
      raise RunningServer::Failed, "filling: #{result.failures}" if result.failures.any? || result.completed != keys

      @told.call("#{keys} keys are kept", true)
    end

    def measure(running, origin, keys, round)
      cell(running.server, "#{keys} keys", SHAPE, round, hits(running, kind, SHAPE, keys: { random: keys }), &without_origin(origin))
    end
  end
end
