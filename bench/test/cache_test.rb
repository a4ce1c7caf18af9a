# frozen_string_literal: true

# What `bin/bench cache` makes of ab's output, of an author's times, and of its templates.
require "minitest/autorun"
require "tmpdir"
require_relative "../cache/ab"
require_relative "../cache/report"
require_relative "../cache/story"

class CacheTest < Minitest::Test
  include Bench

  AB = <<~TEXT
    Document Length:        1024 bytes
    Concurrency Level:      25
    Time taken for tests:   4.000 seconds
    Complete requests:      80000
    Failed requests:        0
    Requests per second:    20000.00 [#/sec] (mean)
  TEXT
  TABLE = "Percentage served,Time in ms\n0,0.100\n50,0.731\n99,5.630\n"

  def test_ab_tells_its_result
    numbers = Ab.parse(AB, TABLE)
    assert_equal [80_000, 4.0, 1024, []], numbers.values_at(:completed, :seconds, :length, :failures)
    assert_in_delta 0.000731, numbers[:p50]
    assert_in_delta 0.00563, numbers[:p99]
  end

  def test_ab_tells_every_failure
    failing = AB.sub("Failed requests:        0", "Failed requests:        7\n   (Connect: 0, Receive: 0, Length: 7, Exceptions: 0)\nNon-2xx responses:      3")
    assert_equal [["ab: other length, or none", 7], ["ab: status", 3]], Ab.parse(failing, TABLE)[:failures]
    assert_raises(NoResult) { Ab.parse("apr_socket_connect(): Connection refused (111)", "") }
  end

  def test_an_authors_requests_are_compared_with_the_same_without_load
    idle = { "list" => [0.1, 0.1, 0.3], "edit" => [0.2] }
    busy = { "list" => [0.2, 0.1, 0.15], "edit" => [0.8], "log in" => [9.0] }
    slow = CacheReport.slowdown(idle, busy)
    assert_in_delta 2.75, slow[:median]
    assert_in_delta 4.0, slow[:worst_step]
    assert_in_delta 4.0, slow[:worst]
    assert_in_delta 3.0, slow[:idle_worst]
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
