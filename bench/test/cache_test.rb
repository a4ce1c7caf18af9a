# frozen_string_literal: true

# What `bin/bench cache` makes of an author's times, and of its templates.
require "minitest/autorun"
require "tmpdir"
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
