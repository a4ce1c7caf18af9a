# frozen_string_literal: true

# What an application's fault costs: fault and clean twin beside each other, before any advice. First holds both to the same responses.
require "json"
require "net/http"
require "open3"
require_relative "gain"
require_relative "scene"
require_relative "visit"
require_relative "waiting"

module Bench
  class DoctorMeasured
    # Seconds of load on the two together, and how often each is asked beforehand.
    SECONDS = 6
    WARM = 10
    # Requests after which a worker's heap and what YJIT has compiled stay as they are, and the seconds that they may take.
    STEADY = 150
    LONGEST_WARM_UP = 6
    # Memory grows until each thread has met all that a page may take: so much longer is the load then.
    MEMORY = 5
    # Of the mean, where a worker was ready and had no processor for most of the time.
    LEAST = 0.05
    # New workers whose first request is timed, for each variant.
    NEWBORN = 5
    # Where each variant needs cookies of its own, they are measured in turn: rounds, and seconds of each.
    ROUNDS = 3

    class Failed < StandardError; end

    # STEADY and LONGEST_WARM_UP: in place of the constants. WAITS: whether the time counts for which a worker was ready and had no processor: on a machine with other
    # work pages that are as slow would differ by how much of their time they compute.
    def initialize(fault, scene, seconds: SECONDS, steady: STEADY, longest_warm_up: LONGEST_WARM_UP, waits: true)
      @fault = fault
      @scene = scene
      @seconds = seconds
      @steady = steady
      @longest_warm_up = longest_warm_up
      @waits = waits
    end

    # A DoctorGain. Both folders must have been laid.
    def run
      return first if @fault.measure == "first"

      @scene.serving(@fault) { |*servers| held_and_measured(servers) }
    end

    # The DoctorGain of two servers that run, of fault and clean twin.
    def held_and_measured(servers)
      compare(*servers)
      case @fault.measure
      when "memory" then of_memory(servers)
      when "first_view" then of_views(servers, "bytes") { |visit| visit.visit(@fault.path).bytes }
      when "second_view"
        of_views(servers, "requests") do |visit|
          visit.visit(@fault.path)
          visit.visit(@fault.path).requests
        end
      else of_requests(servers)
      end
    end

    # The DoctorGain of requests to these two servers, which are not held to the same responses: both pages name their server's port.
    def of(servers) = of_requests(servers)

    # A thread in which SERVER is under load for SECONDS.
    def load(server, seconds)
      WARM.times { get(server, @fault.path) }
      more = @fault.cookies? ? ["-H", "Cookie: #{cookies(server)}"] : []
      Thread.new { bench([server], *more, seconds: seconds) }
    end

    private

    # Every path is answered with 200 by both, and with the same body where the cure changes no bytes.
    def compare(*servers)
      @fault.paths.each do |path|
        bodies = servers.map { |server| get(server, path).body }
        next if !@fault.same_bytes? && path == @fault.path
        raise Failed, "#{path}: #{bodies.map(&:bytesize).join(" and ")} bytes, and not the same" unless bodies.uniq.size == 1
      end
    end

    def get(server, path)
      response = Net::HTTP.get_response(URI("http://127.0.0.1:#{server.port}#{path}"))
      raise Failed, "#{File.basename(server.log, ".log")}: #{path}: status #{response.code}: #{File.readlines(server.log).last(5).join}" unless response.code == "200"

      response
    end

    def of_requests(servers)
      warm_up(servers)
      fault, clean = @fault.cookies? ? in_turn(servers) : bench(servers)
      DoctorGain.new(unit: "ms", fault: fault, clean: clean)
    end

    # Each request without a cookie is of a new visitor, and a session more: there are few of them.
    def warm_up(servers)
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      (@fault.cookies? ? WARM : @steady).times do |done|
        break if done >= WARM && Process.clock_gettime(Process::CLOCK_MONOTONIC) - began > @longest_warm_up

        servers.each { |server| get(server, @fault.path) }
      end
    end

    # Mean milliseconds of each server's requests.
    def bench(servers, *more, seconds: @seconds, path: @fault.path, clients: @fault.clients)
      command = [Servers.paceline, "bench", "-q", "--json", "-k", "-c", clients, "-t", "#{seconds}s", *more, *servers.map { |server| "http://127.0.0.1:#{server.port}#{path}" }]
      waiting = servers.map { |server| @waits ? nil : DoctorWaiting.begin(server.workers) }
      text, complaint, = Open3.capture3(*command.map(&:to_s))
      found = JSON.parse(text)
      (servers.size == 1 ? [found] : found.values_at("a", "b")).zip(waiting).map do |one, waited|
        wrong = one.fetch("statuses").reject { |status, _| status == "200" }
        raise Failed, "#{path}: #{one["statuses"]}" if wrong.any? || one["statuses"].empty?

        mean = one.fetch("mean")
        waited ? [mean - (waited.ms / one["statuses"].values.sum), mean * LEAST].max : mean
      end
    rescue JSON::ParserError
      raise Failed, "paceline bench: #{complaint.lines.last}"
    end

    def in_turn(servers)
      cookies = servers.to_h { |server| [server, cookies(server)] }
      means = Array.new(ROUNDS) do |round|
        order = round.even? ? servers : servers.reverse
        order.to_h { |server| [server, bench([server], "-H", "Cookie: #{cookies[server]}", seconds: (@seconds / 2.0 / ROUNDS).ceil).first] }
      end
      servers.map { |server| Arithmetic.median(means.map { |mean| mean[server] }) }
    end

    # What a visitor sends back.
    def cookies(server)
      get(server, @fault.path).get_fields("set-cookie").to_a.map { |field| field[/\A[^;]+/] }.join("; ")
    end

    # Of a worker after load. Its pages are those that the doctor has seen, since memory is no single page's.
    def of_memory(servers)
      each = (@fault.clients / @fault.paths.size.to_f).ceil
      loads = @fault.paths.map { |path| Thread.new { bench(servers, seconds: @seconds * MEMORY, path: path, clients: each) } }
      loads.each { |load| load.report_on_exception = false }.each(&:join)
      DoctorGain.new(unit: "bytes", **DoctorFault::VARIANTS.map(&:to_sym).zip(servers.map { |server| server.memory[:worker] }).to_h)
    end

    def of_views(servers, unit)
      DoctorGain.new(unit: unit, **DoctorFault::VARIANTS.map(&:to_sym).zip(servers.map { |server| yield DoctorVisit.new(server.port) }).to_h)
    end

    # The median of the first requests of new workers, which take turns.
    def first
      times = { "fault" => [], "clean" => [] }
      NEWBORN.times do
        DoctorFault::VARIANTS.each do |variant|
          server = @scene.server(@fault, variant).start
          times[variant] << timed { get(server, @fault.path) }
        ensure
          server&.stop
        end
      end
      DoctorGain.new(unit: "ms", fault: Arithmetic.median(times["fault"]), clean: Arithmetic.median(times["clean"]))
    end

    def timed
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      yield
      (Process.clock_gettime(Process::CLOCK_MONOTONIC) - began) * 1000
    end
  end
end
