# frozen_string_literal: true

# The arithmetic of `bin/bench cluster`, and how it reads what MONITOR shows.
require "minitest/autorun"
require_relative "../cluster/model"
require_relative "../cluster/recording"

class ClusterBenchTest < Minitest::Test
  include Bench

  NAMES = %w[publish entry read read_entry beat member lead hit hit_byte write write_byte].freeze
  ONE = { "us" => 1.0, "in" => 10.0, "out" => 20.0 }.freeze
  COSTS = { **NAMES.to_h { |name| [name, ONE] }, "members" => { **ONE, "us" => 200.0, "fronts" => 200 }, "page_bytes" => 100 }.freeze

  def plan(**more)
    ClusterModel::Plan.new(fronts: 10, purges: 0.0, round_trip: 0.0, ttl: 5.0, keys: 0, bytes: 1000, lifetime: 100, readers: 2, drops: 1, **more)
  end

  def rates(**more) = ClusterModel.new(plan(**more), COSTS).loads.to_h { |load| [load.name, load.rate.round(3)] }

  def test_a_quiet_cluster_only_beats
    assert_equal({ "purges" => 0.0, "reading them" => 0.0, "beats" => 9.901, "who has confirmed" => 2.0 }, rates)
    assert_in_delta 10 / 0.21, ClusterModel.new(plan(ttl: 1.0), COSTS).loads[2].rate
  end

  def test_each_purge_is_read_by_all_and_confirmed_by_all
    assert_equal({ "purges" => 10.0, "reading them" => 100.0, "beats" => 100.0, "who has confirmed" => 10.0 }, rates(purges: 10.0))
    assert_equal 20.0, rates(purges: 10.0, fronts: 2)["reading them"]
    assert_equal 20.0, rates(purges: 10.0, round_trip: 0.0001)["who has confirmed"].round, "it takes three round trips, so the second look finds it"
    assert_in_delta 1000, rates(purges: 1e6)["beats"], 1, "no front beats sooner than 10 ms after its last"
  end

  def test_what_comes_within_a_round_trip_goes_together
    busy = ClusterModel.new(plan(purges: 1000.0, round_trip: 0.001), COSTS).loads
    assert_equal [500.0 * 10, 2.0], [busy[1].rate, busy[1].cost], "two entries in each read"
    assert_in_delta 1000 / 1.1, busy[0].rate, 0.01, "a front has a hundred purges a second"
    slow = ClusterModel.new(plan(purges: 1e6, round_trip: 1.0), COSTS).loads
    assert_in_delta 256, slow[1].cost, 0.01
  end

  def test_nobody_looks_more_often_than_that
    assert_operator rates(purges: 1e6)["who has confirmed"], :<=, 10 / 0.002
  end

  def test_the_list_of_members_costs_by_their_number
    cost = ->(fronts) { ClusterModel.new(plan(fronts: fronts), COSTS).loads[3].cost }
    assert_equal [200.0, 10.0], [cost[200], cost[10]]
  end

  def test_pages_are_rendered_when_they_expire_or_are_purged
    found = rates(keys: 1000, purges: 5.0)
    assert_equal [15.0, 15.0, 30.0], found.values_at("pages that are missed", "pages that are stored", "pages of others")
    assert_equal 1000 * 1100, ClusterModel.new(plan(keys: 1000), COSTS).memory
  end

  def test_the_limit_is_where_the_thread_is_as_full_as_that
    limit = ClusterModel.limit(plan, COSTS, :purges, 0.01)
    assert_in_delta 0.01, ClusterModel.new(plan(purges: limit), COSTS).share, 0.0001
    assert_equal 0.0, ClusterModel.limit(plan(fronts: 1e9), COSTS, :purges, 0.7)
  end

  def test_a_full_thread_settles_where_fronts_find_more_at_once
    busy = plan(fronts: 100, purges: 2000.0, round_trip: 0.0001)
    settled = ClusterModel.settles(busy, COSTS, 0.5, 1.0)
    assert_operator settled, :>, 0.0001
    assert_in_delta 0.5, ClusterModel.new(busy.dup.tap { |one| one.round_trip = settled }, COSTS).share, 0.01
    assert_equal 0.0001, ClusterModel.settles(plan(round_trip: 0.0001), COSTS, 0.5, 1.0)
    assert_nil ClusterModel.settles(plan(fronts: 1_000_000, purges: 100.0), COSTS, 0.5, 1.0)
  end

  def test_what_monitor_shows
    line = %q(+1700000000.123456 [0 127.0.0.1:5] "EVALSHA" "abc" "2" "{paceline:a}:members" "{paceline:a}:end" "id" "a\"b\\\\\x00\n" "") + "\r\n"
    arguments = ClusterRecording.arguments(line)
    assert_equal ["EVALSHA", "abc", "2", "{paceline:a}:members", "{paceline:a}:end", "id", "a\"b\\\x00\n".b, ""], arguments
    assert_equal "beat", ClusterRecording.kind(arguments)
    assert_nil ClusterRecording.arguments("+OK\r\n")
  end

  def test_kinds_of_commands
    kind = ->(*keys, more: []) { ClusterRecording.kind(["EVALSHA", "sha", keys.size.to_s, *keys.map { |key| "{paceline:a}:#{key}" }, *more]) }
    assert_equal %w[publish members look], [kind["journal", "end"], kind["members"], kind["page:r:0", "lease:r:0"]]
    assert_equal ["write", nil, nil], [kind["lease:r:0", "page:r:0", more: ["t", "1", "x" * 200]], kind["lease:r:0", "page:r:0", more: %w[t 0 ! 0]], kind["lease:r:0"]]
    assert_equal ["read", nil], [ClusterRecording.kind(%w[XREAD COUNT 1]), ClusterRecording.kind(%w[GET a])]
  end
end
