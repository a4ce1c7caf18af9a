# frozen_string_literal: true

# The automatic page cache: what a hit of it costs beside one of the page cache, and what Redmine costs while it is watched.
require "net/http"
require_relative "sections"

module Bench
  # The same page of the same application, in turn.
  class CacheAuto < CacheSection
    SHAPE = Shape.new(64, true)
    ORDINARY = "page cache"
    SERVE = "[auto_cache]\nmode = \"serve\"\nverify = \"0%\"\n"
    # Settings, path and fields of the request, and what its Cache-Status ends with.
    WAYS = {
      ORDINARY => ["", "/kept", [], /\d\z/],
      "automatic" => [SERVE, "/learned", [], /detail=auto\z/],
      "automatic, by a cookie" => [SERVE, "/locale", ["Cookie: locale=de"], /detail=auto\z/],
    }.freeze
    SCENARIOS = { "1 KB" => [], "1 KB, compressed" => ["Accept-Encoding: gzip"] }.freeze
    # A route is shown after 300 comparisons; so many requests are enough where nothing is wrong.
    PATIENCE = 5_000
    private_constant :PATIENCE

    def loads = @options.rounds * WAYS.size * SCENARIOS.size

    def run
      app = Apps.prepare(:learned)
      @counted = []
      cells = (1..@options.rounds).flat_map { |round| WAYS.flat_map { |name, way| visit(app, name, way, round) } }
      Summary.new(cells, {}, counted: @counted, baseline: ORDINARY)
    end

    private

    def visit(app, name, (settings, path, fields, ending), round)
      serving(Caches.paceline_with_app(name, settings, ""), app, "/kept") do |running|
        learn(running, path, fields, ending)
        SCENARIOS.map do |scenario, more|
          kind = Kind.new(name, path, expected: (Caches::KILOBYTE if more.empty?))
          generate = ->(seconds) { hit(running, kind, fields + more, seconds) }
          Measurement.generate(generate.call(PAUSE), @processes)
          count(running, scenario, generate.call(PAUSE)) if round == 1
          cell(running.server, scenario, SHAPE, round, generate.call(@options.seconds))
        end
      end
    end

    def hit(running, kind, fields, seconds)
      Load.new(port: running.port, mix: [[kind, 1.0]], connections: SHAPE.connections, keep_alive: true, seconds: seconds, hit: running.server.hit, fields: fields, percentiles: true)
    end

    # By two browsers, until it is a hit of that cache.
    def learn(running, path, fields, ending)
      head = fields.to_h { |field| field.split(": ", 2) }
      Net::HTTP.start("127.0.0.1", running.port) do |http|
        found = PATIENCE.times.find { |nth| http.get(path, { "User-Agent" => "browser #{nth % 2}" }.merge(head))["cache-status"].to_s.then { |said| said.include?("; hit") && said.match?(ending) } }
        raise RunningServer::Failed, "#{running.server.name}: no hit of #{path}" unless found
      end
    end

    def count(running, scenario, load)
      result, counts = KernelCounts.new(running.processes.keys).during { Measurement.generate(load, @processes) }
      each = ->(number) { number&.fdiv(result.completed) }
      @counted << Visit::Counted.new(server: running.server.name, scenario: scenario, shape: SHAPE, calls: each[counts.calls], switches: each[counts.switches], failures: result.failures)
    end
  end

  # Redmine's front page for somebody who is logged in, which the application answers each time: with and without its being watched.
  class CacheWatch < CacheSection
    SHAPE = Shape.new(25, true)
    OFF = "off"
    WAYS = { OFF => "page_cache = false\n", "watch" => "page_cache = false\n[auto_cache]\nmode = \"watch\"\n" }.freeze
    PAGE = "/"

    def loads = @options.rounds * WAYS.size

    def run
      app = Apps.prepare(:redmine)
      cells = (1..@options.rounds).flat_map do |round|
        WAYS.map do |name, settings|
          serving(Caches.paceline_with_app(name, settings, ""), app, PAGE) { |running| measure(running, round, RedmineAuthor.session(running.port, File.join(app.directory, "account.json"))) }
        end
      end
      Summary.new(cells, {}, baseline: OFF)
    end

    private

    def measure(running, round, cookie)
      load = lambda do |count|
        Load.new(port: running.port, mix: [[Kind.new("redmine", PAGE), 1.0]], connections: SHAPE.connections, keep_alive: true, count: count, fields: ["Cookie: #{cookie}"], percentiles: true)
      end
      Measurement.generate(load.call(@options.requests / 500), @processes)
      cell(running.server, "redmine", SHAPE, round, load.call(@options.requests / 100))
    end
  end
end
