# frozen_string_literal: true

# Boils the rounds down: medians for each server, scenario and load, with ratios to one of them (Puma): each round's own ratio, their median and their
# spread. A load under which a server gave one wrong response in any round gets no figures, only what was wrong.
require_relative "arithmetic"
require_relative "servers"

module Bench
  class Summary
    # RATE_RATIO, CPU_RATIO, P99_RATIO: medians of the rounds' ratios; RATE_SPREAD, CPU_SPREAD: least and most of them. CALLS, SWITCHES: of a request.
    # BY_ROUND: what they come from.
    Row = Struct.new(:server, :rate, :rate_ratio, :rate_spread, :p50, :p99, :p99_ratio, :slow_p99, :cpu, :cpu_ratio, :cpu_spread, :calls, :switches,
                     :generator_busy, :elsewhere, :requests, :wrong, :by_round, keyword_init: true)
    Group = Struct.new(:scenario, :shape, :generator, :rows, keyword_init: true)
    Footprint = Struct.new(:server, :boot, :worker, :worker_ratio, :private_dirty, :private_ratio, :proportional, keyword_init: true)

    # Of {app => Contest}.
    def self.of(contests)
      new(contests.values.flat_map(&:cells), contests.transform_values { |contest| contest.started.transform_values { |started| [started] } },
          counted: contests.values.flat_map(&:counted), order: contests.values.flat_map(&:servers).uniq)
    end

    attr_reader :groups, :footprints

    # CELLS, COUNTED: all of Visit's; VISITS: {app => {server => [{boot:, memory:}, ...]}}; ORDER: of servers' names, if not as they come.
    def initialize(cells, visits, counted: [], order: [], baseline: Servers::BASELINE)
      @baseline = baseline
      @order = order
      @counted = counted.group_by { |one| [one.scenario, one.shape, one.generator, one.server] }
      @groups = cells.group_by { |cell| [cell.scenario, cell.shape, cell.generator] }.map { |key, some| group(key, some) }
      @footprints = visits.transform_values { |servers| with_memory_ratios(in_order(servers).map { |server, seen| footprint(server, seen) }) }
    end

    private

    # KEY: scenario, shape, generator.
    def group(key, cells)
      by_server = in_order(cells.group_by(&:server))
      rows = by_server.map { |server, rounds| row(server, rounds, @counted.fetch([*key, server], [])) }
      base = rows.find { |row| row.server == @baseline && row.wrong.nil? }
      rows.each { |row| with_ratios(row, by_server[row.server], by_server[@baseline]) } if base
      Group.new(scenario: key[0], shape: key[1], generator: key[2], rows: rows)
    end

    def row(server, rounds, counted)
      failures = (rounds + counted).flat_map(&:failures)
      return Row.new(server: server, wrong: tell(failures)) if failures.any?

      median = ->(name) { Arithmetic.median(rounds.map(&name)) }
      Row.new(server: server, rate: median[:rate], cpu: median[:cpu], p50: percentile(rounds, :latencies, :p50, 50), p99: percentile(rounds, :latencies, :p99, 99),
              slow_p99: percentile(rounds, :slow_latencies, :slow_p99, 99), generator_busy: median[:generator_busy], elsewhere: median[:elsewhere],
              calls: Arithmetic.median(counted.map(&:calls)), switches: Arithmetic.median(counted.map(&:switches)), requests: rounds.sum(&:requests),
              by_round: rounds.map { |cell| { round: cell.round, rate: cell.rate, cpu: cell.cpu, p99: cell.p99 } })
    end

    def in_order(by_server)
      @order.empty? ? by_server : by_server.sort_by { |server, _| @order.index(server) }.to_h
    end

    def with_ratios(row, rounds, base)
      return if row.wrong

      rate, cpu, p99 = %i[rate cpu p99].map { |name| Arithmetic.ratios(by_round(rounds, name), by_round(base, name)) }
      row.rate_ratio, row.cpu_ratio, row.p99_ratio = [rate, cpu, p99].map { |ratios| Arithmetic.median(ratios) }
      row.rate_spread, row.cpu_spread = [rate, cpu].map { |ratios| ratios.minmax if ratios.any? }
    end

    # {round => figure}; of several loads in one round their median.
    def by_round(cells, name)
      cells.group_by(&:round).transform_values { |some| Arithmetic.median(some.map(&name)) }
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

    # What is not counted, as that a server does not start, stands alone.
    def tell(failures)
      failures.group_by(&:first).map { |what, some| [*("#{some.sum(&:last)} x" if some.all?(&:last)), what].join(" ") }.join("; ")
    end
  end
end
