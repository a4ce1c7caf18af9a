# frozen_string_literal: true

# One server serving one application: started, its answers checked, warmed up; measured and counted under loads as often as wanted; stopped.
require "net/http"
require_relative "apps"
require_relative "arithmetic"
require_relative "generators"
require_relative "kernel_counts"
require_relative "load"
require_relative "measurement"
require_relative "reaped_server"
require_relative "trace"

module Bench
  class Visit
    # A figure for one load in one round. FAILURES: pairs of what was wrong and how often; LATENCIES in seconds, when all are known.
    Cell = Struct.new(:server, :scenario, :shape, :generator, :round, :rate, :p50, :p99, :slow_p99, :latencies, :slow_latencies, :cpu, :requests, :failures,
                      :generator_busy, :elsewhere, keyword_init: true)
    # Of each request of a load, in all processes; nil what could not be counted.
    Counted = Struct.new(:server, :scenario, :shape, :generator, :calls, :switches, :failures, keyword_init: true)
    WARM_UP_CONNECTIONS = 10
    # Answers that a load must have for a figure, or one for each connection if that is more; and the longest time (s) that it gets for them.
    ANSWERS, LONGEST = 10, 30
    # Seconds for requests that a generator has left under way, and how often the server's CPU time is looked at meanwhile.
    SETTLING, LOOK = 5, 0.1

    attr_reader :server, :scenarios

    # The block is told of each step, and whether a load was measured.
    def initialize(server, app, scenarios, options, &told)
      @server = server
      @scenarios = scenarios
      @options = options
      @told = told
      @running = ReapedServer.new(server, app, File.join(Apps::WORK, "servers"), ready(scenarios[0].kinds[0]))
    end

    # From its start to its end: what it gives in each load once.
    def run(round)
      start
      cells = @scenarios.flat_map { |scenario| shapes(scenario).map { |shape| measure(scenario, shape, round) } }
      check
      cells
    ensure
      close
    end

    # Starts, checks and warms up the server: {boot:, memory:}.
    def start
      @told.call("starts")
      @running.start
      check
      @told.call("warms up")
      @scenarios.each { |scenario| warm_up(scenario) }
      { boot: @running.boot_seconds, memory: @running.memory }
    end

    def close
      @running.stop
    end

    def port = @running.port
    def processes = @running.processes
    def workers = @running.workers

    def shapes(scenario)
      Scenarios.shapes(scenario, @options.connections, @options.full)
    end

    # Asks with another client than the load generator: the answer is the one that the scenario promises, from every server.
    def check
      Net::HTTP.start("127.0.0.1", @running.port, read_timeout: 60) do |http|
        @scenarios.flat_map(&:kinds).each do |kind|
          answer = http.send_request(kind.method, kind.path, kind.body, "Host" => "bench.test", "Accept-Encoding" => "identity")
          wrong = kind.learn(answer.code.to_i, answer.body.to_s.b)
          raise RunningServer::Failed, "#{server.name} answers #{kind.path} wrongly: #{wrong}" if wrong
        end
      end
    rescue SystemCallError, IOError, Timeout::Error, Net::HTTPBadResponse => e
      raise RunningServer::Failed, "#{server.name} doesn't answer: #{e.class}"
    end

    # GENERATOR: one of Generators.
    def measure(scenario, shape, round, generator = Generators::OURS)
      what = [scenario.name, shape, *(generator.name unless generator == Generators::OURS)].join(", ")
      @told.call(what)
      measured = long_enough(shape, seconds(scenario)) { |seconds| Measurement.of(load_of(scenario, shape, seconds, round, generator), @running.measured_processes).tap { settle if generator.leaves_requests? } }
      result = measured.result
      cell = Cell.new(server: server.name, scenario: scenario.name, shape: shape, generator: generator.name, round: round, rate: measured.rate,
                      cpu: Arithmetic.cpu_per_request(measured.cpu, result.completed), requests: result.completed, failures: measured.failures + too_few(result),
                      generator_busy: measured.generator_busy, elsewhere: measured.elsewhere)
      with_latencies(cell, scenario, result)
      @told.call("#{what}: #{cell.failures.empty? ? "#{cell.rate.round} requests/s" : "wrong: #{tell(cell.failures)}"}", true)
      cell
    rescue NoResult => e
      @told.call("#{what}: #{e.message}", true)
      Cell.new(server: server.name, scenario: scenario.name, shape: shape, generator: generator.name, round: round, failures: [[e.message, 1]])
    end

    # Half of the time is enough to count.
    def count(scenario, shape, round, generator = Generators::OURS)
      @told.call("#{scenario.name}, #{shape}: counting")
      processes = @running.measured_processes
      load = load_of(scenario, shape, (seconds(scenario) / 2).round(2), round, generator)
      result, counts = KernelCounts.new(processes.tree.keys).during { Measurement.generate(load, processes) }
      settle if generator.leaves_requests?
      each = ->(count) { count / result.completed.to_f if count && result.completed.positive? }
      Counted.new(server: server.name, scenario: scenario.name, shape: shape, generator: generator.name, calls: each[counts.calls], switches: each[counts.switches], failures: result.failures)
    rescue NoResult => e
      Counted.new(server: server.name, scenario: scenario.name, shape: shape, generator: generator.name, failures: [[e.message, 1]])
    end

    # {scenario => what strace saw}
    def trace
      @scenarios.to_h do |scenario|
        @told.call("#{scenario.name}, under strace")
        [scenario.name, Trace.new(@running, @running.measured_processes).run(scenario.kinds[0])]
      end
    end

    private

    # What tells that it serves.
    def ready(kind) = kind.method == "GET" ? kind.path : "/hello"

    def seconds(scenario) = (@options.seconds * scenario.longer).round(2)

    # Measures again for longer while there are too few answers within the time: a window shorter than an answer takes would give no figure, or any. Whoever is wrong
    # is not asked again.
    def long_enough(shape, seconds)
      wanted = [ANSWERS, shape.connections || 0].max
      loop do
        measured = yield seconds
        return measured if measured.failures.any? || measured.result.timely >= wanted || seconds >= LONGEST

        @told.call("only #{measured.result.timely} answers in #{seconds} s: once more, for longer")
        seconds = [(seconds * [1.5 * wanted / [measured.result.timely, 1].max, 8].min).ceil, LONGEST].min
      end
    end

    def too_few(result)
      result.timely < ANSWERS && result.failures.empty? ? [["only #{result.timely} answers in #{result.seconds} s", nil]] : []
    end

    def warm_up(scenario)
      load = Load.new(port: @running.port, mix: scenario.mix, connections: WARM_UP_CONNECTIONS, keep_alive: true, count: @options.warm_up || scenario.warm_up)
      result = Measurement.generate(load, @running.measured_processes)
      raise RunningServer::Failed, "#{server.name}, warm-up: #{tell(result.failures)}" if result.failures.any?
    rescue NoResult => e
      raise RunningServer::Failed, "#{server.name}, warm-up: #{e.message}"
    end

    # What a generator has left under way is nobody's next load: waits until the server works no more.
    def settle
      limit = now + SETTLING
      processes = @running.measured_processes
      seen = processes.tree
      loop do
        sleep LOOK
        before, seen = seen, processes.tree
        return if Processes.cpu_seconds(before, seen).zero? || now > limit
      end
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def with_latencies(cell, scenario, result)
      cell.p50, cell.p99 = result.p50, result.p99
      return unless result.latencies

      cell.latencies, cell.slow_latencies = scenario.kinds.map { |kind| result.latencies[kind.name] }
      cell.p50, cell.p99 = [50, 99].map { |percent| Arithmetic.percentile(cell.latencies, percent) }
      cell.slow_p99 = Arithmetic.percentile(cell.slow_latencies || [], 99)
    end

    def load_of(scenario, shape, seconds, round, generator)
      generator.load(port: @running.port, mix: scenario.mix, connections: shape.connections, keep_alive: shape.keep_alive, rate: shape.rate, seconds: seconds, seed: round)
    end

    def tell(failures)
      failures.map { |what, times| "#{times} x #{what}" }.join("; ")
    end
  end
end
