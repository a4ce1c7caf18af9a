# frozen_string_literal: true

require_relative "../outbound/callers"
require_relative "../outbound/contest"
require_relative "../outbound/pages"
require_relative "../outbound/relay"
require_relative "../outbound/ways"
require "minitest/autorun"

# What the upstream's log and the measured batches amount to, and the wire.
class OutboundBenchTest < Minitest::Test
  include Bench

  def test_connections_are_counted_by_their_first_request
    log = ["1 HTTP/2.0 . /orders/0\n", "2 HTTP/2.0 . /orders/1\n", "7 HTTP/1.1 r /orders/2\n", "1 HTTP/1.1 r /orders/3\n"]
    assert_equal [4, 2, { "HTTP/2.0" => 2, "HTTP/1.1" => 2 }, 1], OutboundUpstream.seen(log).to_a
  end

  # Rounds of different speed: each way is compared with the floor and the baseline of its own round.
  def test_ratios_are_those_within_a_round
    ways = OutboundWays.named(%w[raw faraday all])
    visits = [[1, 10], [10, 400], [2, 60], [0.5, 5], [5, 100], [1, 20]].each_with_index.map { |(ms, first), i| visit(ways[i % 3], [ms, ms, ms * 9], first) }
    floor, baseline, all = OutboundContest.rows(ways, visits)
    assert_equal [1.0, 10.0], [floor.floor, floor.times]
    assert_equal [10.0, 1.0], [baseline.floor, baseline.times]
    assert_equal [2.0, 5.0, 2.0, 1, 18, 40.0], [all.floor, all.times, all.ms, all.least, all.most, all.first_ms]
    assert_equal [nil, 0.5], [floor.front, all.front], "the front's time is told of who uses it"
    assert_equal [15, 1.0], [all.first_opened, all.opened]
    assert_nil all.wrong
  end

  def test_without_floor_and_baseline_there_is_nothing_to_compare_with
    ways = OutboundWays.named(%w[get])
    row = OutboundContest.rows(ways, [visit(ways[0], [3], 4)]).first
    assert_equal [3, nil, nil], [row.ms, row.floor, row.times]
  end

  def test_one_wrong_answer_is_told
    ways = OutboundWays.named(%w[raw])
    assert_equal "1 x status 500", OutboundContest.rows(ways, [visit(ways[0], [1], 1), visit(ways[0], [1], 1, wrong: "1 x status 500")]).first.wrong
  end

  def test_pages_of_newborn_and_warm_workers_are_told_apart
    page = ->(way, kind, ms) { OutboundPages::Page.new(way: way, kind: kind, round: 1, seconds: (ms + 1) / 1000.0, calls_ms: ms, cpu_ms: 2, opened: 0) }
    pages = [page["install", "cold", 900], page["faraday", "newborn", 1700], page["faraday", "warm", 1600], page["install", "newborn", 470],
             page["install", "warm", 460], page["install", "warm", 450], page["install", "newborn", 480]]
    baseline, install = OutboundPages.rows(OutboundWays.named(%w[faraday install]), pages)
    assert_equal [1700, 1600, 1.0], [baseline.newborn_calls, baseline.warm_calls, baseline.times]
    assert_equal [475.0, 455.0], [install.newborn_calls, install.warm_calls]
    assert_in_delta 1600 / 455.0, install.times
    assert_in_delta 0.476, install.newborn
  end

  def test_nothing_is_compared_with_wrong_answers
    floor, baseline, all = OutboundWays.named(%w[raw faraday all])
    rows = OutboundContest.rows([floor, baseline, all], [visit(floor, [1], 1, wrong: "1 x status 500"), visit(baseline, [9], 9), visit(all, [3], 3)])
    assert_equal [nil, nil, nil], rows.map(&:floor)
    assert_equal [nil, 1.0, 3.0], rows.map(&:times)
  end

  def test_a_batch_is_right_only_if_every_answer_is
    whole = [200, "x" * OutboundCallers::BYTES]
    answering = ->(answers) { Struct.new(:answers) { def call(_paths) = answers }.new(answers) }
    assert_nil OutboundCallers.batch(answering[[whole] * 15])
    { [whole] * 14 => "14 answers instead of 15", ([whole] * 13) + ([[500, whole[1]]] * 2) => "2 x status 500", [whole] * 14 << [200, ""] => "1 x 0 bytes instead of 1024" }
      .each { |answers, why| assert_equal why, OutboundCallers.batch(answering[answers]) }
  end

  def test_every_way_has_a_name_of_its_own_and_a_caller
    assert_equal OutboundWays.all, OutboundWays.all.uniq(&:name)
    known = %w[raw net-http install get all] + OutboundCallers::FaradayCaller::ADAPTERS.keys + OutboundCallers::FaradayCaller::PARALLEL.keys
    assert_empty OutboundWays.all.map { |way| way.caller.delete_suffix("-new") } - known
    assert_raises(ArgumentError) { OutboundWays.named(%w[httpx]) }
  end

  def test_the_wire_delays_each_packet_and_keeps_their_order
    (left, inner_left), (right, inner_right), (input, stop) = Array.new(2) { UNIXSocket.pair(:DGRAM) } << IO.pipe
    relay = Thread.new { OutboundRelay.new(0.05, [inner_left, inner_right]).run(input) }
    began = now
    %w[one two].each { |packet| left.write(packet) }
    right.write("back")
    assert_equal %w[one two back], [right.recv(99), right.recv(99), left.recv(99)]
    assert_operator now - began, :>=, 0.05
    left.write("late")
    assert_equal "late", right.recv(99)
    assert_operator now - began, :>=, 0.1
    stop.close
    assert relay.join(10), "it ends with its input"
  ensure
    [left, inner_left, right, inner_right, input].each(&:close)
  end

  private

  def visit(way, ms, first, wrong: nil)
    OutboundContest::Visit.new(way: way, first_ms: first, first_cpu: 1, ms: ms, cpu: [1], front: 0.5, first_opened: 15, opened: ms.size, resumed: 0,
                               versions: { "HTTP/1.1" => 15 }, wrong: wrong)
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
