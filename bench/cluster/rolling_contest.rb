# frozen_string_literal: true

# Three fronts of a cluster on this machine under load, which are left alone and restarted one after the other in turn. Prints nothing.
require_relative "../../test/e2e/support/valkey"
require_relative "../lib/machine"
require_relative "../lib/processes"
require_relative "../restart/steady_load"
require_relative "../restart/visit"
require_relative "rolling_front"
require_relative "rolling_rounds"

module Bench
  class RollingContest
    FRONTS = 3
    # Seconds after a restart that belong to no phase: processes of before end.
    SETTLING = 2

    # OPTIONS: see RollingBench. The block is told of each step.
    def initialize(options, processes, &told)
      @options = options
      @processes = processes
      @told = told
    end

    # What clients saw (RollingRounds), the processors that other work took, versions.
    def run
      valkey = Valkey.new
      start(valkey)
      @loads = @fronts.map { |front| SteadyLoad.new(port: front.port, clients: @options[:clients], think: @options[:think] / 1000.0).start }
      @processes.own(valkey.pid, *@loads.map(&:pid)) { measure }
    ensure
      @loads&.each(&:kill)
      @fronts&.each(&:stop)
      valkey&.close
    end

    private

    def start(valkey)
      @fronts = Array.new(FRONTS) { |number| RollingFront.new(number + 1, valkey.url, @options) }
      @fronts.each(&:start)
      @fronts.each { |front| front.ready(FRONTS) }
    end

    def measure
      before, busy, began = @processes.tree, Processes.machine_busy, now
      phases = Array.new(@options[:rounds]) { |number| round(number) }
      cpu, busy, wall = Processes.cpu_seconds(before, @processes.tree), Processes.machine_busy - busy, now - began
      results = @loads.map(&:stop)
      # The last that ends has counted all of them.
      elsewhere = [busy - cpu - results.last.own_cpu, 0].max / wall
      { rounds: RollingRounds.new(results.flat_map(&:requests), phases), elsewhere: elsewhere, versions: Machine.versions([Valkey.program]) }
    end

    def round(number)
      told = "round #{number + 1} of #{@options[:rounds]}"
      @told.call("#{told}: quiet")
      sleep SETTLING
      quiet = timed { sleep @options[:seconds] }
      version = @fronts.map(&:deploy).first
      @told.call("#{told}: rolling restart")
      # Another front is told each time.
      rolling = timed do
        @fronts[number % FRONTS].restart_all
        sleep RestartVisit::MARGIN
      end
      RollingRounds::Phase.new(quiet, rolling, version)
    end

    def timed
      began = now
      yield
      [began, now]
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
