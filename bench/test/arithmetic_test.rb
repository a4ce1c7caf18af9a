# frozen_string_literal: true

# Medians, percentiles, ratios, and how rounds become rows.
require "minitest/autorun"
require_relative "../lib/scenarios"
require_relative "../lib/summary"
require_relative "../lib/visit"

class ArithmeticTest < Minitest::Test
  include Bench

  def test_medians
    assert_equal 3, Arithmetic.median([9, 1, 3])
    assert_equal 2.5, Arithmetic.median([4, 1, 3, 2])
    assert_equal 5, Arithmetic.median([nil, 5])
    assert_nil Arithmetic.median([])
  end

  def test_percentiles_are_values_that_were_measured
    values = (1..100).to_a.shuffle
    assert_equal 50, Arithmetic.percentile(values, 50)
    assert_equal 99, Arithmetic.percentile(values, 99)
    assert_equal 7, Arithmetic.percentile([7], 99)
    assert_equal 20, Arithmetic.percentile([10, 20], 51)
    assert_nil Arithmetic.percentile([], 50)
  end

  def test_ratios_need_a_base
    assert_equal 0.5, Arithmetic.ratio(1, 2)
    assert_nil Arithmetic.ratio(1, nil)
    assert_nil Arithmetic.ratio(1, 0)
    assert_nil Arithmetic.ratio(nil, 1)
  end

  def test_ratios_are_those_of_one_round
    assert_equal [2.0, 0.5], Arithmetic.ratios({ 1 => 4, 2 => 5, 3 => 9 }, { 1 => 2, 2 => 10 })
    assert_empty Arithmetic.ratios({ 1 => 4 }, { 1 => 0 })
  end

  def test_cpu_per_request
    assert_in_delta 40.0, Arithmetic.cpu_per_request(0.8, 20_000)
    assert_nil Arithmetic.cpu_per_request(0.8, 0)
  end

  # The machine is three times as fast in the second round: what a round's servers have in common is not in its ratio.
  def test_rounds_become_medians_with_each_rounds_ratio_to_puma
    summary = Summary.new([cell("puma", 1, 100.0, 80.0), cell("puma", 2, 300.0, 60.0), cell("puma", 3, 200.0, 70.0),
                           cell("paceline", 1, 90.0, 40.0), cell("paceline", 2, 240.0, 45.0), cell("paceline", 3, 170.0, 42.0)], {})
    puma, paceline = summary.groups[0].rows
    assert_equal [200.0, 70.0, 1.0, [1.0, 1.0]], [puma.rate, puma.cpu, puma.rate_ratio, puma.rate_spread]
    assert_equal [170.0, 0.85, [0.8, 0.9]], [paceline.rate, paceline.rate_ratio, paceline.rate_spread]
    assert_equal [0.6, [0.5, 0.75]], [paceline.cpu_ratio, paceline.cpu_spread]
  end

  def test_without_puma_there_are_no_ratios
    row = Summary.new([cell("paceline", 1, 90.0, 40.0)], {}).groups[0].rows[0]
    assert_equal [90.0, nil, nil], [row.rate, row.rate_ratio, row.rate_spread]
  end

  def test_nothing_is_compared_with_wrong_answers
    bad = cell("puma", 2, 900.0, 1.0)
    bad.failures = [["/hello: status 500", 2]]
    puma, paceline = Summary.new([cell("puma", 1, 100.0, 80.0), bad, cell("paceline", 1, 90.0, 40.0)], {}).groups[0].rows
    assert_equal "2 x /hello: status 500", puma.wrong
    assert_equal [90.0, nil], [paceline.rate, paceline.rate_ratio]
  end

  def test_calls_and_switches_are_medians_of_what_was_counted
    counted = [[12.0, 2.0], [14.0, 4.0], [13.0, 3.0]].map do |calls, switches|
      Visit::Counted.new(server: "puma", scenario: "hello", shape: Shape.new(25, true), calls: calls, switches: switches, failures: [])
    end
    row = Summary.new([cell("puma", 1, 1.0, 1.0)], {}, counted: counted).groups[0].rows[0]
    assert_equal [13.0, 3.0], [row.calls, row.switches]
    counted[1].failures = [["/hello: status 500", 1]]
    assert_equal "1 x /hello: status 500", Summary.new([cell("puma", 1, 1.0, 1.0)], {}, counted: counted).groups[0].rows[0].wrong
  end

  def test_rates_are_of_answers_within_the_time
    late = Load::Result.new(completed: 110, timely: 100, seconds: 2, failures: [])
    assert_equal 50.0, Measurement.new(result: late).rate
  end

  def test_a_load_without_any_answer_is_wrong
    none = Measurement.new(result: Load::Result.new(completed: 0, timely: 0, seconds: 2, failures: []))
    assert_equal [["no answer at all", 1]], none.failures
  end

  def test_percentiles_pool_the_rounds_when_every_latency_is_known
    first, second = cell("puma", 1, 1.0, 1.0), cell("puma", 2, 1.0, 1.0)
    first.latencies = [0.001] * 99
    second.latencies = [0.5]
    row = Summary.new([first, second], {}).groups[0].rows[0]
    assert_equal [0.001, 0.001], [row.p50, row.p99]
    second.latencies = [0.5, 0.5]
    assert_equal 0.5, Summary.new([first, second], {}).groups[0].rows[0].p99
  end

  def test_one_wrong_response_leaves_no_figures
    bad = cell("paceline", 2, 900.0, 1.0)
    bad.failures = [["/hello: status 500", 1]]
    row = Summary.new([cell("paceline", 1, 900.0, 1.0), bad], {}).groups[0].rows[0]
    assert_equal "1 x /hello: status 500", row.wrong
    assert_nil row.rate
    assert_nil row.cpu
  end

  def test_memory_is_compared_with_puma
    seen = ->(worker) { { boot: 1.0, memory: { worker: worker, private_dirty: worker * 3, proportional: worker * 4 } } }
    summary = Summary.new([], { redmine: { "puma" => [seen[200], seen[100], seen[150]], "paceline" => [seen[90]] } })
    puma, paceline = summary.footprints[:redmine]
    assert_equal 150, puma.worker
    assert_in_delta 0.6, paceline.worker_ratio
  end

  private

  def cell(server, round, rate, cpu)
    Visit::Cell.new(server: server, scenario: "hello", shape: Shape.new(25, true), round: round, rate: rate, cpu: cpu, p50: 0.001, p99: 0.002, failures: [],
                    generator_busy: 0.1, elsewhere: 0.0, requests: 10)
  end
end
