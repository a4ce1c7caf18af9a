# frozen_string_literal: true

# What the load generator makes of responses of a scripted server.
require "minitest/autorun"
require "socket"
require_relative "../lib/kind"
require_relative "../lib/load"
require_relative "support/answering"

class LoadTest < Minitest::Test
  include Bench
  include Answering

  def test_responses_with_a_length
    result = load_from("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    assert_equal [20, []], [result.completed, result.failures]
    assert_equal 20, result.latencies["k"].size
  end

  def test_chunked_responses_after_an_interim_one
    result = load_from("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n")
    assert_equal [20, []], [result.completed, result.failures]
  end

  def test_responses_that_end_with_the_connection
    result = load_from("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", closes: true)
    assert_equal [20, []], [result.completed, result.failures]
  end

  def test_wrong_responses_are_told_and_not_counted
    { "HTTP/1.1 500 Oops\r\nContent-Length: 5\r\n\r\nhello" => /status 500/, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhellO" => /other content/,
      "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell" => /4 bytes instead of 5/, "HTTP/1.1 404 No\r\nContent-Length: 5\r\n\r\nhello" => /status 404/,
      "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" => /0 bytes instead of 5/, "HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n" => /status 204/ }.each do |answer, why|
      result = load_from(answer)
      assert_equal 0, result.completed
      assert_match why, result.failures[0][0]
    end
    assert_match(/cut short/, load_from("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", closes: true).failures[0][0])
  end

  def test_a_refused_connection_is_a_failure
    port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    result = Load.new(port: port, mix: [[Kind.new("k", "/", expected: "hello"), 1.0]], connections: 2, keep_alive: true, count: 3).run
    assert_equal [0, 0], [result.completed, result.timely]
    assert_match(/ECONNREFUSED/, result.failures[0][0])
  end

  def test_a_hit_is_told_by_its_field
    hit = ["X-Cache", { is: "HIT" }]
    assert_empty load_from("HTTP/1.1 200 OK\r\nX-Cache: HIT\r\nContent-Length: 5\r\n\r\nhello", hit: hit).failures
    assert_equal "/: X-Cache: MISS", load_from("HTTP/1.1 200 OK\r\nX-Cache: MISS\r\nContent-Length: 5\r\n\r\nhello", hit: hit).failures[0][0]
  end

  def test_percentiles_instead_of_all_latencies
    result = load_from("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", percentiles: true)
    assert_nil result.latencies
    assert_operator 0, :<, result.p50
    assert_operator result.p50, :<=, result.p99
  end

  def test_each_key_is_asked_for_once
    lines = Queue.new
    result = serving("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, lines) do |port|
      Load.new(port: port, mix: [[Kind.new("k", "/key/", expected: "hello"), 1.0]], connections: 3, keep_alive: true, keys: { each: 10 }).run
    end
    assert_equal [10, 10, []], [result.completed, result.timely, result.failures]
    assert_equal (0..9).map { |key| "GET /key/#{key} HTTP/1.1" }, Array.new(10) { lines.pop }.sort
  end

  def test_an_open_loop_sends_at_fixed_times
    result = serving("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false) do |port|
      Load.new(port: port, mix: [[Kind.new("k", "/", expected: "hello"), 1.0]], keep_alive: true, rate: 100, seconds: 0.2).run
    end
    assert_equal [20, []], [result.completed, result.failures]
  end

  def test_a_generator_that_gives_no_result_is_told
    assert_raises(NoResult) { Load.new(port: 1, mix: [], connections: 1, keep_alive: true, count: "none").run }
  end

  def test_pages_may_differ_in_their_tokens_only
    page = ->(token, text) { %(<meta name="csrf-token" content="#{token}" /><form name="form-0a1b2c3d">#{text}</form>) }
    kind = Kind.new("page", "/", check: :page, contains: "Beers")
    assert_nil kind.learn(200, page["abc", "Beers"])
    other = page["defg+/=", "Beers"].sub("0a1b2c3d", "ffffffff")
    assert_nil kind.wrong(other.bytesize, other)
    assert_equal "other content", kind.wrong(0, page["abc", "Wines"])
    assert_match(/not in it/, Kind.new("page", "/", check: :page, contains: "Beers").learn(200, "Wines"))
  end

  def test_pages_that_are_asked_for_by_status_may_differ_in_length
    kind = Kind.new("k", "/", check: :status)
    answers = [1, 20].cycle.lazy.map { |length| "HTTP/1.1 200 OK\r\nContent-Length: #{length}\r\n\r\n#{"a" * length}" }
    result = serving(answers, false) { |port| Load.new(port: port, mix: [[kind, 1.0]], connections: 1, keep_alive: true, count: 4).run }
    assert_equal [4, []], [result.completed, result.failures]
    result = serving("HTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\na", false) { |port| Load.new(port: port, mix: [[kind, 1.0]], connections: 1, keep_alive: true, count: 4).run }
    assert_match(/status 404/, result.failures[0][0])
  end

  private

  # Twenty requests over two connections to a server that always answers ANSWER.
  def load_from(answer, closes: false, **options)
    kind = Kind.new("k", "/", expected: "hello".b)
    serving(answer, closes) { |port| Load.new(port: port, mix: [[kind, 1.0]], connections: 2, keep_alive: true, count: 20, **options).run }
  end
end
