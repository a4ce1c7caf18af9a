# frozen_string_literal: true

# What one load costs: runs a generator and looks at the server's processes and the machine before and after.
require_relative "processes"

module Bench
  # A load generator that gave no result: the server ended, most likely.
  class NoResult < StandardError; end

  # RESULT is the generator's; CPU in seconds, of all of the server's processes; the rest in processors.
  Measurement = Struct.new(:result, :cpu, :generator_busy, :elsewhere, keyword_init: true) do
    def self.of(generator, processes)
      before, busy, began = processes.tree, Processes.machine_busy, now
      result = generate(generator, processes)
      wall = now - began
      cpu, busy = Processes.cpu_seconds(before, processes.tree), Processes.machine_busy - busy
      new(result: result, cpu: cpu, generator_busy: result.own_cpu / wall, elsewhere: [busy - cpu - result.own_cpu, 0].max / wall)
    end

    # The generator's process is not counted as the server's.
    def self.generate(generator, processes)
      child = nil
      generator.in_child do |pid, output|
        child = pid
        processes.own(pid) { output.read.tap { child = nil } }
      end
    ensure
      Process.kill("KILL", child) if child
    end

    def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # Pairs of what was wrong and how often. A load that nobody answered is one, too.
    def failures
      result.completed.zero? && result.failures.empty? ? [["no answer at all", 1]] : result.failures
    end

    # Answers a second, of those that came within the time. What came later would make a server slow that lets a few wait.
    def rate
      result.seconds.positive? ? result.timely / result.seconds.to_f : 0.0
    end
  end
end
