# frozen_string_literal: true

# One server serving one application once: started, its answers checked, warmed up, measured under each load, stopped.
require "net/http"
require_relative "arithmetic"
require_relative "load"
require_relative "measurement"
require_relative "running_server"
require_relative "trace"
require_relative "wrk"

module Bench
  class Visit
    # A figure for one load in one round. FAILURES: pairs of what was wrong and how often; LATENCIES in seconds, when all are known.
    Cell = Struct.new(:server, :scenario, :shape, :round, :rate, :p50, :p99, :slow_p99, :latencies, :slow_latencies, :cpu, :requests, :failures,
                      :generator_busy, :elsewhere, keyword_init: true)
    WARM_UP_CONNECTIONS = 10

    # TRACES: whether to count system calls too. The block is told of each step.
    def initialize(server, app, scenarios, processes, options, traces:, &told)
      @scenarios = scenarios
      @processes = processes
      @options = options
      @traces = traces
      @told = told
      @running = RunningServer.new(server, app, processes, File.join(Apps::WORK, "servers"), scenarios[0].kinds[0].method == "GET" ? scenarios[0].kinds[0].path : "/hello")
    end

    # {cells:, boot:, memory:, traces:}
    def run(round)
      @told.call("starts")
      @running.start
      check
      @told.call("warms up")
      @scenarios.each { |scenario| warm_up(scenario) }
      memory = @running.memory
      cells = @scenarios.flat_map do |scenario|
        Scenarios.shapes(scenario, @options.connections, @options.full).map { |shape| measure(scenario, shape, round) }
      end
      check
      { cells: cells, boot: @running.boot_seconds, memory: memory, traces: @traces ? trace : {} }
    ensure
      @running.stop
    end

    private

    # Asks with another client than the load generators: the answer is the one that the scenario promises, from every server.
    def check
      Net::HTTP.start("127.0.0.1", @running.port, read_timeout: 60) do |http|
        @scenarios.flat_map(&:kinds).each do |kind|
          kind.known_encoding = nil
          answer = http.send_request(kind.method, kind.path, kind.body, "Host" => "bench.test", "Accept-Encoding" => "identity")
          wrong = kind.learn(answer.code.to_i, answer.body.to_s.b)
          raise RunningServer::Failed, "#{@running.server.name} answers #{kind.path} wrongly: #{wrong}" if wrong
        end
      end
    rescue SystemCallError, IOError, Timeout::Error => e
      raise RunningServer::Failed, "#{@running.server.name} doesn't answer: #{e.class}"
    end

    def warm_up(scenario)
      kind = scenario.kinds[0]
      load = Load.new(port: @running.port, mix: [[kind, 1.0]], connections: WARM_UP_CONNECTIONS, keep_alive: true, count: @options.warm_up || scenario.warm_up)
      result = Measurement.generate(load, @processes)
      raise RunningServer::Failed, "#{@running.server.name}, warm-up: #{tell(result.failures)}" if result.failures.any?
    end

    def measure(scenario, shape, round)
      @told.call("#{scenario.name}, #{shape}")
      seconds = (@options.seconds * scenario.longer).round(2)
      generator = generator(scenario, shape, seconds, round)
      measured = Measurement.of(generator, @processes)
      result = measured.result
      cell = Cell.new(server: @running.server.name, scenario: scenario.name, shape: shape, round: round, rate: measured.rate,
                      cpu: Arithmetic.cpu_per_request(measured.cpu, result.completed), requests: result.completed, failures: result.failures,
                      generator_busy: measured.generator_busy, elsewhere: measured.elsewhere)
      with_latencies(cell, scenario, result)
      @told.call("#{scenario.name}, #{shape}: #{cell.failures.empty? ? "#{cell.rate.round} requests/s" : "wrong: #{tell(cell.failures)}"}", true)
      cell
    end

    def with_latencies(cell, scenario, result)
      if result.respond_to?(:p50)
        cell.p50 = result.p50
        cell.p99 = result.p99
        return
      end
      cell.latencies, cell.slow_latencies = scenario.kinds.map { |kind| result.latencies[kind.name] }
      cell.p50, cell.p99 = [50, 99].map { |percent| Arithmetic.percentile(cell.latencies, percent) }
      cell.slow_p99 = Arithmetic.percentile(cell.slow_latencies || [], 99)
    end

    def generator(scenario, shape, seconds, round)
      return Wrk.new(port: @running.port, kind: scenario.kinds[0], connections: shape.connections, keep_alive: shape.keep_alive, seconds: seconds) if scenario.generator == :wrk

      Load.new(port: @running.port, mix: scenario.mix, connections: shape.connections, keep_alive: shape.keep_alive, rate: shape.rate, seconds: seconds, seed: round)
    end

    def trace
      @scenarios.to_h do |scenario|
        @told.call("#{scenario.name}, under strace")
        [scenario.name, Trace.new(@running, @processes).run(scenario.kinds[0])]
      end
    end

    def tell(failures)
      failures.map { |what, times| "#{times} x #{what}" }.join("; ")
    end
  end
end
