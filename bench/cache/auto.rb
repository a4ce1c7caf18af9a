# frozen_string_literal: true

# The automatic page cache: what a hit of it costs beside one of the page cache, and what Redmine costs while it is watched.
require "json"
require "net/http"
require "open3"
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
          count(running, scenario, SHAPE, generate.call(PAUSE)) if round == 1
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
  end

  # Redmine's front page for somebody who is logged in, which the application answers each time: with and without its being watched.
  class CacheWatch < CacheSection
    SHAPE = Shape.new(25, true)
    OFF = "off"
    WAYS = { OFF => "page_cache = false\n", "watch" => "page_cache = false\n[auto_cache]\nmode = \"watch\"\n" }.freeze
    PAGE = "/"
    SCENARIO = "redmine"
    # So many are watched in any case, and then those of one second in twenty (caching/auto/samples.rs): before that nothing is measured.
    FIRST = 300
    # Of the requests then, so many have to be watched.
    WATCHED = 0.02

    # Neither is always the one that comes after the other.
    def self.in_turn(round) = round.odd? ? WAYS.to_a : WAYS.to_a.reverse

    # What is wrong with figures for requests of which ROUTE (as `paceline cache advise` says it; nil: none) tells.
    def self.unwatched(route, requests)
      return [["it does not know the page", nil]] unless route

      silent = route["refusals"].select { |refusal| refusal["why"].include?("has not said") }.sum { |refusal| refusal["requests"] }
      watched = route["requests"] - silent
      watched < FIRST + (requests * WATCHED) ? [["only #{watched} of #{requests} requests were watched", nil]] : []
    end

    def loads = @options.rounds * WAYS.size

    def run
      @app = Apps.prepare(:redmine)
      @counted = []
      cells = (1..@options.rounds).flat_map do |round|
        self.class.in_turn(round).map do |name, settings|
          serving(Caches.paceline_with_app(name, settings, ""), @app, PAGE) { |running| measure(running, round) }
        end
      end
      Summary.new(cells, {}, counted: @counted, order: WAYS.keys, baseline: OFF)
    end

    private

    def measure(running, round)
      cookie = RedmineAuthor.session(running.port, File.join(@app.directory, "account.json"))
      load = lambda do |count|
        Load.new(port: running.port, mix: [[Kind.new("redmine", PAGE), 1.0]], connections: SHAPE.connections, keep_alive: true, count: count, fields: ["Cookie: #{cookie}"], percentiles: true)
      end
      # Twenty seconds or more.
      many = @options.requests / 25
      Measurement.generate(load.call(FIRST * Servers::WORKERS * 2), @processes)
      count(running, SCENARIO, SHAPE, load.call(many)) if round == 1
      cell(running.server, SCENARIO, SHAPE, round, load.call(many)) { running.server.name == OFF ? [] : self.class.unwatched(route, many) }
    end

    # The page as the server knows it.
    def route
      told, status = Open3.capture2(Servers.paceline, "cache", "advise", "--json", chdir: @app.directory)
      raise RunningServer::Failed, "paceline cache advise: #{told}" unless status.success?

      JSON.parse(told)["sites"].values.flat_map { |site| site["routes"] }.find { |one| one["route"] == "GET #{PAGE}" }
    end
  end
end
