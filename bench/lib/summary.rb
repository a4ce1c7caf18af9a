# frozen_string_literal: true

# Boils the rounds down: medians for each server, scenario and load, with ratios to one of them (Puma). A load under which a server gave one wrong
# response in any round gets no figures, only what was wrong.
require_relative "arithmetic"
require_relative "servers"

module Bench
  class Summary
    Row = Struct.new(:server, :rate, :rate_ratio, :p50, :p99, :slow_p99, :cpu, :cpu_ratio, :generator_busy, :elsewhere, :requests, :wrong, keyword_init: true)
    Group = Struct.new(:scenario, :shape, :rows, keyword_init: true)
    Footprint = Struct.new(:server, :boot, :worker, :worker_ratio, :private_dirty, :private_ratio, :proportional, keyword_init: true)

    attr_reader :groups, :footprints

    # CELLS: all of Visit's; VISITS: {app => {server => [{boot:, memory:}, ...]}}.
    def initialize(cells, visits, baseline: Servers::BASELINE)
      @baseline = baseline
      @groups = cells.group_by { |cell| [cell.scenario, cell.shape] }.map { |(scenario, shape), some| group(scenario, shape, some) }
      @footprints = visits.transform_values { |servers| with_memory_ratios(servers.map { |server, seen| footprint(server, seen) }) }
    end

    private

    def group(scenario, shape, cells)
      rows = cells.group_by(&:server).map { |server, rounds| row(server, rounds) }
      base = rows.find { |row| row.server == @baseline && row.wrong.nil? }
      rows.each do |row|
        row.rate_ratio = Arithmetic.ratio(row.rate, base&.rate)
        row.cpu_ratio = Arithmetic.ratio(row.cpu, base&.cpu)
      end
      Group.new(scenario: scenario, shape: shape, rows: rows)
    end

    def row(server, rounds)
      failures = rounds.flat_map(&:failures)
      return Row.new(server: server, wrong: tell(failures)) if failures.any?

      median = ->(name) { Arithmetic.median(rounds.map(&name)) }
      Row.new(server: server, rate: median[:rate], cpu: median[:cpu], p50: percentile(rounds, :latencies, :p50, 50), p99: percentile(rounds, :latencies, :p99, 99),
              slow_p99: percentile(rounds, :slow_latencies, :slow_p99, 99), generator_busy: median[:generator_busy], elsewhere: median[:elsewhere],
              requests: rounds.sum(&:requests))
    end

    # Over the requests of all rounds where each one's latency is known, otherwise the median of the rounds' percentiles.
    def percentile(rounds, all, single, percent)
      return Arithmetic.percentile(rounds.flat_map(&all), percent) if rounds.all?(&all)

      Arithmetic.median(rounds.map(&single))
    end

    def footprint(server, seen)
      median = ->(name) { Arithmetic.median(seen.map { |visit| visit[:memory][name] }) }
      Footprint.new(server: server, boot: Arithmetic.median(seen.map { |visit| visit[:boot] }), worker: median[:worker], private_dirty: median[:private_dirty],
                    proportional: median[:proportional])
    end

    def with_memory_ratios(footprints)
      base = footprints.find { |one| one.server == @baseline }
      footprints.each do |one|
        one.worker_ratio = Arithmetic.ratio(one.worker, base&.worker)
        one.private_ratio = Arithmetic.ratio(one.private_dirty, base&.private_dirty)
      end
    end

    def tell(failures)
      failures.group_by(&:first).map { |what, some| "#{some.sum(&:last)} x #{what}" }.join("; ")
    end
  end
end
