# frozen_string_literal: true

# The whole scene: a page of an application that Paceline serves makes fifteen calls. The workers are restarted again and again; the first page of the newborn
# one is measured, and pages after it.
require_relative "../lib/arithmetic"
require_relative "callers"
require_relative "scene"

module Bench
  class OutboundPages
    WAYS = %w[faraday persistent install paceline all parallel].freeze
    # KIND: "cold" (the front has just started), "newborn" (a worker's first page) or "warm". SECONDS: of the whole request, seen by its client; CALLS_MS: of the calls in it.
    Page = Struct.new(:way, :kind, :round, :seconds, :calls_ms, :cpu_ms, :opened, :wrong, keyword_init: true)
    Row = Struct.new(:way, :title, :newborn, :newborn_calls, :newborn_cpu, :newborn_opened, :warm, :warm_calls, :warm_cpu, :warm_opened, :times, :wrong, keyword_init: true)

    attr_reader :absent, :elsewhere, :place, :rounds

    # WARM: pages after the first one; TOGETHER those of ways that make their calls at once.
    def initialize(place, ways, processes, rounds:, warm:, together:, &told)
      @place = place
      @ways = ways
      @rounds = rounds
      @warm = warm
      @together = together
      @scene = OutboundScene.new(place, processes)
      @told = told
      @pages = []
      @absent = {}
    end

    def steps = @rounds * @ways.size

    def run
      @elsewhere = @scene.run do
        @scene.serving do |server|
          cold(server)
          (1..@rounds).each { |round| @ways.each { |way| turn(way, server, round) } }
        end
      end
      self
    end

    # The first page after the front has started, by the first way that goes through it.
    def cold_page = @pages.find { |page| page.kind == "cold" }

    def rows = self.class.rows(@ways, @pages)

    def data
      { place: @place.title, rounds: @rounds, elsewhere: @elsewhere, rows: rows.map { |row| row.to_h.compact }, pages: @pages.map(&:to_h) }
    end

    def self.rows(ways, pages)
      by_way = pages.reject { |page| page.kind == "cold" }.group_by(&:way)
      baseline = median(by_way[OutboundWays::BASELINE], "warm", :calls_ms) unless by_way[OutboundWays::BASELINE]&.any?(&:wrong)
      ways.select { |way| by_way[way.name] }.map do |way|
        some = by_way[way.name]
        calls = median(some, "warm", :calls_ms)
        Row.new(way: way.name, title: way.title, newborn: median(some, "newborn", :seconds), newborn_calls: median(some, "newborn", :calls_ms), newborn_cpu: median(some, "newborn", :cpu_ms),
                newborn_opened: median(some, "newborn", :opened), warm: median(some, "warm", :seconds), warm_calls: calls, warm_cpu: median(some, "warm", :cpu_ms),
                warm_opened: median(some, "warm", :opened), times: Arithmetic.ratio(baseline, calls), wrong: OutboundCallers.wrongs(some))
      end
    end

    def self.median(pages, kind, what)
      Arithmetic.median(pages.select { |page| page.kind == kind }.map(&what)) if pages
    end
    private_class_method :median

    private

    def cold(server)
      way = @ways.find(&:front) or return
      look(way, server, "cold", 0)
    end

    def turn(way, server, round)
      server.renew_workers
      look(way, server, "newborn", round)
      (way.together ? @together : @warm).times { look(way, server, "warm", round) }
      @told.call("round #{round}, #{way.name}: #{format("%.0f", @pages.reverse.find { |page| page.kind == "newborn" }.calls_ms)} ms by a newborn worker", true)
    rescue RunningServer::Failed, OutboundUpstream::Failed => e
      @absent[way.name] = e.message.lines.first.strip
      @told.call("#{way.name}: #{@absent[way.name]}", true)
    end

    def look(way, server, kind, round)
      page, seen = @scene.upstream.watching(OutboundCallers::CALLS) { server.page(way) }
      @pages << Page.new(way: way.name, kind: kind, round: round, seconds: page.seconds, calls_ms: page.answer["ms"], cpu_ms: page.answer["cpu_ms"],
                         opened: seen.opened, wrong: page.answer["wrong"])
    end
  end
end
