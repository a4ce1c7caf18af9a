# frozen_string_literal: true

# Response times of several runs of `paceline bench` as one distribution. No I/O.
module Bench
  class DoctorLatencies
    # Of `paceline bench --json`: its percentiles are steps, each of which stands for the part of the answers since the step before.
    def self.read(found)
      before = 0.0
      new(found.fetch("percentiles").sort_by { |step| step["percent"] }.map do |step|
        part, before = step["percent"] - before, step["percent"]
        [step["ms"], part * found.fetch("answers") / 100]
      end)
    end

    def self.of_all(some) = new(some.flat_map(&:steps))

    # Pairs of milliseconds and how many answers took so long.
    attr_reader :steps

    def initialize(steps)
      @steps = steps.sort
    end

    def count = @steps.sum(&:last).round

    # Nearest rank, in milliseconds; nil of none.
    def percentile(percent)
      wanted, seen = @steps.sum(&:last) * percent / 100.0, 0
      # Parts of a hundred are not exact in binary.
      @steps.find { |_, some| (seen += some) >= wanted - 1e-6 }&.first
    end
  end
end
