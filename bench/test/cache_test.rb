# frozen_string_literal: true

# What `bin/bench cache` makes of an author's times, and of its templates.
require "minitest/autorun"
require "tmpdir"
require_relative "../cache/auto"
require_relative "../cache/watch"
require_relative "../cache/report"
require_relative "../cache/story"

class CacheTest < Minitest::Test
  include Bench

  def test_an_authors_requests_are_compared_with_the_same_without_load
    idle = { "list" => [0.1, 0.1, 0.3], "edit" => [0.2] }
    busy = { "list" => [0.2, 0.1, 0.15], "edit" => [0.8], "log in" => [9.0] }
    slow = CacheReport.slowdown(idle, busy)
    assert_in_delta 2.75, slow[:median]
    assert_in_delta 4.0, slow[:worst_step]
    assert_in_delta 4.0, slow[:worst]
    assert_in_delta 3.0, slow[:idle_worst]
  end

  def test_a_hit_is_told_by_its_header
    answers = { "paceline" => ["paceline; hit; ttl=4", "paceline; fwd=miss"], "nginx" => %w[HIT MISS], "varnish" => ["32770 3", "32770"] }
    answers.each do |name, (hit, miss)|
      rule = Caches::HITS.fetch(name).last
      assert Caches.hit?(rule, hit), name
      refute Caches.hit?(rule, miss), name
    end
  end

  def test_each_way_comes_after_each_other_one_as_often
    orders = (6..11).map { |burst| CacheWatch.in_turn(burst) }
    assert_equal 6, orders.uniq.size
    followers = orders.flatten.each_cons(2).reject { |one, next_one| one == next_one }.tally
    assert_operator followers.values.max - followers.values.min, :<=, 1, followers.to_s
  end

  def test_figures_of_requests_that_were_not_watched_do_not_count
    route = ->(requests, silent) { { "requests" => requests, "refusals" => [{ "why" => "reads Time.now", "requests" => requests }, { "why" => "the application has not said what it read", "requests" => silent }] } }
    assert_equal [320, 0], [CacheWatch.watched(route.call(321, 1)), CacheWatch.watched(nil)]
    assert_empty CacheWatch.unwatched([0.002, 0.045])
    assert_equal [["only 1.7 % of the requests were watched", nil]], CacheWatch.unwatched([0.007, 0.027])
  end

  def test_the_costs_of_watching_are_shown
    shape = CacheWatch::SHAPE
    cells = (1..2).flat_map do |round|
      { "off" => 1000.0, "off again" => 999.0, "watch" => 1010.0 + round }.map do |name, cpu|
        Visit::Cell.new(server: name, scenario: "redmine", shape: shape, round: round, rate: 100.0, p50: 1.0, p99: 2.0, cpu: cpu, requests: 10, failures: [], generator_busy: 0.1, elsewhere: 0.0)
      end
    end
    counted = CacheWatch::WAYS.keys.map { |name| Visit::Counted.new(server: name, scenario: "redmine", shape: shape, calls: 90.5, switches: 7.25, failures: []) }
    text = CacheReport.allocate.send(:watch, Summary.new(cells, {}, counted: counted, order: CacheWatch::WAYS.keys, baseline: "off"), Struct.new(:shares).new([0.051, 0.043]))
    assert_match(/\| watch +\| +100 \| +1,01[12] \| 1\.01[12] \| 1\.011 to 1\.012 \| +90\.50 \| +7\.25 \|/, text)
    assert_match(/\| off again +\| +100 \| +999 \| 0\.999 \|/, text)
    assert_includes text, "4.3 to 5.1 % were watched"
  end

  def test_templates_are_filled
    Dir.mktmpdir do |work|
      Dir[File.join(Servers::PEERS, "{origin,cache,redmine}.*")].each do |template|
        text = File.read(Caches.fill(File.basename(template), 81, work, 82)).gsub(/^\s*#.*/, "")
        refute_match(/\b(WORK|PORT|ORIGIN|KILOBYTE)\b/, text)
        assert_match(/:81\b|"82"/, text)
      end
    end
  end

  def test_objects_have_the_sizes_named
    assert_equal({ "1k" => 1024, "54k" => 54 * 1024 }, Caches::OBJECTS.transform_values(&:bytesize))
  end
end
