# frozen_string_literal: true

# What the load generators make of responses: wrk's lines, and the Ruby generator against a scripted server.
require "minitest/autorun"
require "socket"
require_relative "../lib/kind"
require_relative "../lib/load"
require_relative "../lib/wrk"

class LoadTest < Minitest::Test
  include Bench

  def test_wrk_tells_its_result_in_one_line
    numbers, failures = Wrk.parse("Running 60s test\ndrained\nresult sent=100 completed=100 timely=90 micros=800000 wrong=0 connect=0 read=0 write=0 timeout=0 p50=900 p99=2100\nwhy \n")
    assert_equal [100, 90, 800_000, 900, 2100], numbers.values_at(:completed, :timely, :micros, :p50, :p99)
    assert_empty failures
  end

  def test_wrk_tells_every_failure
    _, failures = Wrk.parse("result sent=10 completed=7 micros=1 wrong=2 connect=0 read=3 write=0 timeout=0 p50=1 p99=1\nwhy status 500, 3 bytes\n")
    assert_equal [["wrk: read errors", 3], ["wrong: status 500, 3 bytes", 2], ["never answered", 3]], failures
    assert_raises(NoResult) { Wrk.parse("unable to connect") }
  end

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

  def test_wrk_tells_wrong_answers
    skip "wrk is not installed" unless system("which", "wrk", %i[out err] => File::NULL)
    assert_equal [["wrong: status 500, 5 bytes", true]], wrk_from("HTTP/1.1 500 Oops\r\nContent-Length: 5\r\n\r\nhello")
    assert_equal [["wrong: status 200, 0 bytes", true]], wrk_from("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert_empty wrk_from("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
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

  private

  # Twenty requests over two connections to a server that always answers ANSWER.
  def load_from(answer, closes: false)
    kind = Kind.new("k", "/", expected: "hello".b)
    serving(answer, closes) { |port| Load.new(port: port, mix: [[kind, 1.0]], connections: 2, keep_alive: true, count: 20).run }
  end

  # What failed, and whether it did.
  def wrk_from(answer)
    serving(answer, false) do |port|
      result = Wrk.new(port: port, kind: Kind.new("k", "/", expected: "hello"), connections: 1, keep_alive: true, seconds: 0.1).in_child { |_, output| output.read }
      result.failures.map { |what, times| [what, times.positive?] }
    end
  end

  def serving(answer, closes)
    server = TCPServer.new("127.0.0.1", 0)
    threads = []
    accepting = Thread.new do
      loop do
        threads << Thread.new(server.accept) { |socket| serve(socket, answer, closes) }
      end
    rescue IOError
      nil
    end
    yield server.addr[1]
  ensure
    server.close
    accepting.join
    threads.each(&:kill)
  end

  def serve(socket, answer, closes)
    loop do
      while (line = socket.gets) && line != "\r\n" do end
      break unless line

      socket.write(answer)
      break if closes
    end
    socket.close
  rescue SystemCallError
    nil
  end
end
