# frozen_string_literal: true

# Whole requests: a small Rails application served by Paceline, with its sessions in cookies, and in one store after the other.
require "tmpdir"
require_relative "../lib/apps"
require_relative "../lib/arithmetic"
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

    # The block is told of each step and whether a load is done.
    def initialize(processes, options, place, &told)
      @processes = processes
      @options = options
      @place = place
      @told = told
      @absent = {}
    end

    def steps = @options.rounds * STORES.size

    def run
      cells = (1..@options.rounds).flat_map { |round| STORES.filter_map { |name, store| cell(name, store, round) } }
      @summary = Summary.new(cells, {}, baseline: BASELINE)
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
      measured = Measurement.of(Visits.new(port: running.port, cookies: first.cookies, connections: @options.clients, seconds: @options.request_seconds, seed: round), @processes)
      told(name, measured, redis ? redis.cpu - cpu : 0, round)
    ensure
      running&.stop
    end

    def told(name, measured, cpu_of_redis, round)
      result = measured.result
      @told.call("round #{round}, #{name}: #{measured.rate.round} requests/s", true)
      Visit::Cell.new(server: name, scenario: "visit", shape: Shape.new(@options.clients, true), round: round, rate: measured.rate, requests: result.completed,
                      cpu: Arithmetic.cpu_per_request(measured.cpu + cpu_of_redis, result.completed), failures: measured.failures,
                      latencies: result.latencies["visit"], generator_busy: measured.generator_busy, elsewhere: [measured.elsewhere - cpu_of_redis / result.seconds, 0].max)
    end
  end
end
