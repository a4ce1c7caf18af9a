# frozen_string_literal: true

# The automatic page cache: what a hit of it costs beside one of the page cache.
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
end
