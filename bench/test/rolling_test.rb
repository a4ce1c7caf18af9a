# frozen_string_literal: true

require "minitest/autorun"
require_relative "../cluster/rolling"

# Which requests belong to a rolling restart and which to the quiet, what counts as failed, and what is said of it.
class RollingBenchTest < Minitest::Test
  include Bench

  def request(began, ended, version = 1, failure = nil) = SteadyLoad::Request.new(began, ended, true, failure ? nil : version, failure)

  # Quiet from 0 to 10 s, a restart to version 2 from 11 to 20 s.
  PHASE = RollingRounds::Phase.new([0, 10], [11, 20], 2)

  def rounds(*requests, phases: [PHASE]) = RollingRounds.new(requests, phases)

  def test_requests_belong_to_the_quiet_if_they_are_within_and_to_a_restart_if_they_touch_it
    within, between, before, during, after = request(0, 1), request(9.5, 10.5), request(10.9, 11.1), request(12, 15), request(20, 20.5, 2)
    round = rounds(within, between, before, during, after).rounds.first
    assert_equal [1, 3], [round.quiet.requests, round.rolling.requests]
    assert_equal [1, 3, 9], [round.quiet.p99, round.rolling.max, round.seconds]
  end

  def test_the_ratio_is_of_each_round
    slow = RollingRounds::Phase.new([30, 40], [41, 50], 3)
    found = rounds(request(1, 2), request(12, 13.5), request(31, 33, 2), request(42, 43, 3), phases: [PHASE, slow])
    assert_equal [1.5, 0.5], found.ratios
    assert_empty rounds(request(1, 2)).ratios, "nobody has asked during the restart"
  end

  def test_all_failures_count_and_none_has_a_time
    found = rounds(request(1, 2), request(1, 9, nil, "status 503"), request(10.1, 10.2, nil, "no response"), request(12, 13), request(12, 19, nil, "status 503"))
    round = found.rounds.first
    assert_equal({ "status 503" => 2, "no response" => 1 }, found.failures)
    assert_equal [1, 1, 1, 1], [round.failed_quiet, round.failed_rolling, round.quiet.max, round.rolling.max]
    assert_equal 5, found.count
  end

  def test_old_code_may_answer_until_the_restart_is_over
    assert_equal 0, rounds(request(19, 21, 1), request(21, 22, 2)).rounds.first.old
    assert_equal 1, rounds(request(21, 22, 1), request(23, 24, nil, "status 503")).rounds.first.old
  end

  FACTS = { "date" => "today", "processors" => 2, "processor" => "P", "load_before" => [0.1, 0.2, 0.3], "ruby" => "ruby", "kernel" => "6" }.freeze

  def page(rounds, elsewhere: 0.0)
    options = { **RollingBench::NUMBERS, command: "bin/bench cluster --rolling" }
    RollingBench.new("rolling", options).send(:page, FACTS, { rounds: rounds, elsewhere: elsewhere, versions: { "paceline" => "0.1.0" } })
  end

  def test_the_page_says_what_failed_and_how_times_compare
    text = page(rounds(request(1, 1.01), request(12, 12.013), phases: [PHASE, PHASE]))
    assert_match(/^\*\*0 of 2 requests failed \(target: 0\)\. p99 during a rolling restart is 1\.30 \(1\.30\) of that without \(target: 1\.50 at most\)\.\*\*$/, text)
    assert_match(/^\| +2 \| +2 \| +10\.0 \| +10\.0 \| +13\.0 \| +13\.0 \| +13\.0 \| +1\.30 \| +9\.0 \| +0 \| +0 \|$/, text)
    refute_match(/What failed|don't rely/, text)
    text = page(rounds(request(1, 1.01), request(12, 13, nil, "status 503")), elsewhere: 0.5)
    assert_match(/^\*\*Other work took 0\.5 of 2 processors/, text)
    assert_includes text, "1 of 2 requests failed"
    assert_includes text, "What failed: 1 x status 503."
  end
end
