# frozen_string_literal: true

# Whole requests: a small Rails application served by Paceline, with its sessions in cookies, and in one store after the other.
require "tmpdir"
require_relative "../lib/apps"
require_relative "../lib/arithmetic"
require_relative "../lib/kernel_counts"
require_relative "../lib/measurement"
require_relative "process"
require_relative "visitors"
require_relative "../lib/running_server"
require_relative "../lib/scenarios"
require_relative "../lib/summary"
require_relative "../lib/visit"

module Bench
  class PStoreRequests
    APP = File.expand_path("../apps/sessions", __dir__)
    BASELINE = "cookies"
    # Name, and what the application calls it.
    STORES = { BASELINE => "cookie", "paceline" => "paceline", "a PStore file each" => "pstore", "activerecord" => "activerecord", "redis, by paceline" => "redis" }.freeze

    attr_reader :summary, :absent

    # The block is told of each step and whether a load is done. BASELINE: what the others are compared with; STORES: names of those that take part.
    def initialize(processes, options, place, baseline: BASELINE, stores: STORES.keys, &told)
      @processes = processes
      @baseline = baseline
      @stores = STORES.slice(*stores)
      @options = options
      @place = place
      @told = told
      @absent = {}
    end

    def steps = @options.rounds * @stores.size

    def run
      @counted = []
      # In another order each round: a machine that becomes slower meanwhile would spoil the later ones.
      cells = (1..@options.rounds).flat_map { |round| @stores.to_a.rotate(round - 1).filter_map { |name, store| cell(name, store, round) } }
      @summary = Summary.new(cells, {}, counted: @counted, order: @stores.keys, baseline: @baseline)
      self
    end

    private

    def cell(name, store, round)
      return if @absent.key?(name)

      folder = Dir.mktmpdir("sessions", @place)
      redis = RedisProcess.new(folder, ["--save", "", "--appendonly", "no"]) if store == "redis"
      @processes.own(*redis&.pid) { visit(name, { "BENCH_SESSIONS" => store, "BENCH_FOLDER" => folder, "BENCH_REDIS" => redis&.socket }, redis, round) }
    rescue RunningServer::Failed, PStoreProcess::Failed => e
      @absent[name] = e.message.lines.map(&:strip).reject(&:empty?).first(3).join(" / ")
      @told.call("round #{round}, #{name}: not measured", true)
      nil
    ensure
      redis&.close
      FileUtils.rm_rf(folder) if folder
    end

    def visit(name, environment, redis, round)
      @told.call("round #{round}, #{name} starts", false)
      running = RunningServer.new(Servers.named(%w[paceline]).first, App.new(name: :sessions, directory: APP, environment: environment), @processes,
                                  File.join(Apps::WORK, "servers"), Visits::PATH)
      running.start
      # All have a session, and have read it once.
      first = Visits.new(port: running.port, cookies: [nil] * @options.sessions, connections: @options.clients, count: @options.sessions * 2).run
      raise RunningServer::Failed, "warm-up: #{first.failures.first.first}" if first.failures.any?

      cpu = redis&.cpu.to_f
      visits = ->(cookies, seconds) { Visits.new(port: running.port, cookies: cookies, connections: @options.clients, seconds: seconds, seed: round) }
      measured = Measurement.of(visits[first.cookies, @options.request_seconds], @processes)
      cell = told(name, measured, redis ? redis.cpu - cpu : 0, round)
      @counted << count(name, visits[measured.result.cookies, @options.request_seconds / 2])
      cell
    ensure
      running&.stop
    end

    # System calls and context switches, in a pass of its own.
    def count(name, visits)
      result, counts = KernelCounts.new(@processes.tree.keys).during { Measurement.generate(visits, @processes) }
      each = ->(number) { number / result.completed.to_f if number && result.completed.positive? }
      Visit::Counted.new(server: name, scenario: "visit", shape: shape, calls: each[counts.calls], switches: each[counts.switches], failures: result.failures)
    end

    def shape = Shape.new(@options.clients, true)

    def told(name, measured, cpu_of_redis, round)
      result = measured.result
      @told.call("round #{round}, #{name}: #{measured.rate.round} requests/s", true)
      Visit::Cell.new(server: name, scenario: "visit", shape: shape, round: round, rate: measured.rate, requests: result.completed,
                      cpu: Arithmetic.cpu_per_request(measured.cpu + cpu_of_redis, result.completed), failures: measured.failures,
                      latencies: result.latencies["visit"], generator_busy: measured.generator_busy, elsewhere: [measured.elsewhere - cpu_of_redis / result.seconds, 0].max)
    end
  end
end
