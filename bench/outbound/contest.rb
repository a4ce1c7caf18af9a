# frozen_string_literal: true

# All ways make their batches in one place, in turns, each time in a fresh process.
require_relative "../lib/arithmetic"
require_relative "callers"
require_relative "scene"

module Bench
  class OutboundContest
    # Of one way in one round. MS and CPU (ms of the Ruby process) of the first batch and of each warm one; FRONT: ms of the front's for a warm batch; OPENED: connections, by the
    # first batch, and by all warm ones; VERSIONS: of HTTP, as the upstream saw them; WRONG: what of the answers was, if anything.
    Visit = Struct.new(:way, :first_ms, :first_cpu, :ms, :cpu, :front, :first_opened, :opened, :resumed, :versions, :wrong, keyword_init: true)
    # Medians. LEAST, MOST: of the warm batches. FLOOR: warm median to the floor's; TIMES: so many times quicker than the baseline; both medians of the rounds' ratios.
    Row = Struct.new(:way, :title, :first_ms, :first_cpu, :ms, :least, :most, :floor, :times, :cpu, :front, :first_opened, :opened, :versions, :wrong, keyword_init: true)
    # The wire alone, ms.
    Wire = Struct.new(:connect, :single)
    PROBES = 20

    attr_reader :absent, :elsewhere, :place, :rounds, :wire

    # PLACE: where; WARM: batches after the first one in a process; SLOW those of ways that are slow, TOGETHER of those that make their calls at once.
    def initialize(place, ways, processes, rounds:, warm:, slow:, together:, &told)
      @place = place
      @ways = ways
      @rounds = rounds
      @warm = warm
      @slow = slow
      @together = together
      @scene = OutboundScene.new(place, processes)
      @told = told
      @visits = []
      @absent = {}
    end

    def steps = @rounds * @ways.size

    def run
      @elsewhere = @scene.run do
        @scene.serving do |server|
          probe(server)
          # The front is as warm as it is after its first page.
          @ways.select(&:front).uniq(&:server).each { |way| @scene.calling(way, server.egress) { |process| process.ask("batches" => 2) } }
          (1..@rounds).each { |round| @ways.each { |way| turn(way, server, round) } }
        end
      end
      self
    end

    def rows = self.class.rows(@ways, @visits)

    def data
      { place: @place.title, rounds: @rounds, warm_batches: { slow: @slow, together: @together, others: @warm }, wire: @wire.to_h, elsewhere: @elsewhere, rows: rows.map { |row| row.to_h.compact },
        visits: @visits.map { |visit| visit.to_h.merge(way: visit.way.name) } }
    end

    # What VISITS say, a Row for each way.
    def self.rows(ways, visits)
      by_way = visits.group_by(&:way)
      medians = by_way.reject { |_, some| some.any?(&:wrong) }.to_h { |way, some| [way.name, some.map { |visit| Arithmetic.median(visit.ms) }] }
      ways.select { |way| by_way[way] }.map { |way| row(way, by_way[way], medians) }
    end

    def self.row(way, visits, medians)
      warm = visits.flat_map(&:ms)
      own = medians.fetch(way.name, [])
      floor = medians[OutboundWays::FLOOR]&.zip(own)&.map { |one, it| Arithmetic.ratio(it, one) }
      times = medians[OutboundWays::BASELINE]&.zip(own)&.map { |one, it| Arithmetic.ratio(one, it) }
      Row.new(way: way.name, title: way.title, first_ms: Arithmetic.median(visits.map(&:first_ms)), first_cpu: Arithmetic.median(visits.map(&:first_cpu)),
              ms: Arithmetic.median(warm), least: warm.min, most: warm.max, floor: floor && Arithmetic.median(floor), times: times && Arithmetic.median(times),
              cpu: Arithmetic.median(visits.flat_map(&:cpu)), front: (Arithmetic.median(visits.map(&:front)) if way.front),
              first_opened: Arithmetic.median(visits.map(&:first_opened)), opened: visits.sum(&:opened) / warm.size.to_f,
              versions: visits.flat_map { |visit| visit.versions.keys }.uniq.sort, wrong: OutboundCallers.wrongs(visits))
    end
    private_class_method :row

    private

    # What the wire costs the floor: a connection, and a single call on a warm one.
    def probe(server)
      floor = OutboundWays.named([OutboundWays::FLOOR]).first
      @scene.calling(floor, server.egress) do |process|
        process.ask("singles" => 3)
        @wire = Wire.new(*%w[connects singles].map { |what| Arithmetic.median(process.ask(what => PROBES)["ms"]) })
      end
    end

    def turn(way, server, round)
      return @told.call("#{way.name}: not measured", true) if @absent[way.name]

      visit = @scene.calling(way, server.egress) { |process| visit(way, process, server) }
      @visits << visit
      @told.call("round #{round}, #{way.name}: #{format("%.1f", Arithmetic.median(visit.ms))} ms", true)
    rescue AskedProcess::Failed, OutboundUpstream::Failed => e
      @absent[way.name] = e.message
      @told.call("#{way.name}: #{e.message}", true)
    end

    def visit(way, process, server)
      count = way.slow ? @slow : (way.together ? @together : @warm)
      first, opening = @scene.upstream.watching(OutboundCallers::CALLS) { process.ask("batches" => 1)["batches"][0] }
      used = server.front_cpu_ms
      warm, opened = @scene.upstream.watching(OutboundCallers::CALLS * count) { process.ask("batches" => count)["batches"] }
      Visit.new(way: way, first_ms: first["ms"], first_cpu: first["cpu_ms"], ms: warm.map { |batch| batch["ms"] }, cpu: warm.map { |batch| batch["cpu_ms"] },
                front: (server.front_cpu_ms - used) / count, first_opened: opening.opened, opened: opened.opened, resumed: opening.resumed + opened.resumed,
                versions: opening.versions.merge(opened.versions) { |_, one, other| one + other }, wrong: [first, *warm].filter_map { |batch| batch["wrong"] }.first)
    end
  end
end
