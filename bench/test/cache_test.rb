# frozen_string_literal: true

# What `bin/bench cache` makes of an author's times, and of its templates.
require "minitest/autorun"
require "tmpdir"
require_relative "../cache/auto"
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

  def test_both_ways_come_first_in_turn
    assert_equal [%w[off watch], %w[watch off], %w[off watch]], (1..3).map { |round| CacheWatch.in_turn(round).map(&:first) }
  end

  def test_figures_of_requests_that_were_not_watched_do_not_count
    route = ->(requests, silent) { { "requests" => requests, "refusals" => [{ "why" => "reads Time.now", "requests" => requests }, { "why" => "the application has not said what it read", "requests" => silent }] } }
    assert_empty CacheWatch.unwatched(route.call(321, 1), 1000)
    assert_equal [["only 300 of 1000 requests were watched", nil]], CacheWatch.unwatched(route.call(400, 100), 1000)
    assert_equal [["it does not know the page", nil]], CacheWatch.unwatched(nil, 1000)
  end

  def test_the_costs_of_watching_are_shown
    shape = CacheWatch::SHAPE
    cells = (1..2).flat_map do |round|
      { "off" => 1000.0, "watch" => 1010.0 + round }.map do |name, cpu|
        Visit::Cell.new(server: name, scenario: "redmine", shape: shape, round: round, rate: 100.0, p50: 1.0, p99: 2.0, cpu: cpu, requests: 10, failures: [], generator_busy: 0.1, elsewhere: 0.0)
      end
    end
    counted = %w[off watch].map { |name| Visit::Counted.new(server: name, scenario: "redmine", shape: shape, calls: 90.5, switches: 7.25, failures: []) }
    text = CacheReport.allocate.send(:watch, Summary.new(cells, {}, counted: counted, order: %w[off watch], baseline: "off"), nil)
    assert_match(/\| watch +\| +100 \| +1,01[12] \| 1\.01[12] \| 1\.011 to 1\.012 \| +90\.50 \| +7\.25 \|/, text)
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
