# frozen_string_literal: true

require_relative "support/case"

# Requests that must not be sent twice: which connections they take.
class OnceTest < OutboundTest
  def setup
    super
    Paceline::HTTP.install!
    @server = server
  end

  def test_a_server_that_closes_without_a_word
    oneshot = server(limit: 1)
    50.times { assert_equal "200", post(oneshot).code }
    assert_equal [50, 50], [oneshot.connections, oneshot.asked.size]
  end

  def test_nor_through_a_session_after_it_was_seen_to_close
    oneshot = server(limit: 1)
    Net::HTTP.start("127.0.0.1", oneshot.port) { |http| assert_equal "200", http.get("/plain").code }
    wait_until_closed(oneshot)
    assert_equal "200", post(oneshot).code
    3.times { assert_equal "200", post(oneshot).code }
    Net::HTTP.start("127.0.0.1", oneshot.port) do |http|
      3.times { assert_equal "200", http.post("/plain", "x", "Content-Type" => "text/plain").code }
    end
    assert_equal 8, oneshot.asked.size
  end

  def test_one_is_taken_when_another_has_been_open_for_longer
    both
    idle(0 => 10)
    2.times { post }
    assert_equal 2, @server.connections
    # What was idle for nearly as long as the oldest one is not.
    idle(0 => 10, 1 => 9.5)
    post
    assert_equal 3, @server.connections
  end

  def test_one_is_taken_when_it_was_open_for_longer_before
    get
    idle(0 => 5)
    get
    3.times { post }
    assert_equal 1, @server.connections
  end

  # There are devices that serve one connection at a time.
  def test_the_only_one_is_closed_before_another_is_opened
    get
    wire = waiting[0]
    post
    assert_predicate wire, :closed?
    assert_equal [2, 1], [@server.connections, Paceline::HTTP.pool.size]
  end

  def test_what_is_idempotent_takes_any
    get
    post
    3.times { get }
    assert_equal 2, @server.connections
  end

  # What a session began with was chosen before anybody knew what it is for.
  def test_a_session_that_begins_with_a_post
    get
    Net::HTTP.start("127.0.0.1", @server.port) do |http|
      assert_equal 1, @server.connections
      3.times { http.post("/plain", "x", "Content-Type" => "text/plain") }
      assert_equal 2, @server.connections
    end
  end

  def test_a_server_that_keeps_connections_for_less_than_it_did
    both
    idle(0 => 10, 1 => 5)
    post
    assert_equal 2, @server.connections
    hang_up
    both
    # For a while nothing is taken for granted.
    idle(0 => 10, 1 => 5)
    post
    assert_equal 5, @server.connections
    Paceline::HTTP.stub(:now, Process.clock_gettime(Process::CLOCK_MONOTONIC) + 61) do
      idle(0 => 10, 1 => 5, 2 => 5)
      post
    end
    assert_equal 5, @server.connections
  end

  def test_a_close_in_flight_is_remembered
    http = Net::HTTP.new("127.0.0.1", @server.port)
    http.start do
      http.get("/race-later")
      assert_raises(EOFError) { http.post("/plain", "x", "Content-Type" => "text/plain") }
      3.times { assert_equal "200", http.post("/plain", "x", "Content-Type" => "text/plain").code }
    end
    assert_equal 4, @server.connections
    assert_equal(%w[/race-later /plain /plain /plain /plain], @server.asked.map(&:target))
  end

  # A connection that was given back because it does not do, and is missed: nobody else may get it twice.
  def test_a_connection_is_given_back_once
    http = Net::HTTP.new("127.0.0.1", @server.port).start
    http.get("/plain")
    both
    http.instance_variable_get(:@paceline_at).keep_alive.found_closed(0)
    @server.refuse
    assert_raises(Errno::ECONNREFUSED) { http.post("/plain", "x", "Content-Type" => "text/plain") }
    assert_equal 3, Paceline::HTTP.pool.size
    http.finish
    assert_equal [3, 3], [Paceline::HTTP.pool.size, waiting.uniq.size]
  end

  def test_a_session_goes_on_after_it_could_not_connect
    http = Net::HTTP.new("127.0.0.1", @server.port).start
    http.get("/plain")
    both
    http.instance_variable_get(:@paceline_at).keep_alive.found_closed(0)
    @server.refuse
    assert_raises(Errno::ECONNREFUSED) { http.post("/plain", "x", "Content-Type" => "text/plain") }
    assert_nil http.peer_cert
    assert_equal "200", http.get("/plain").code
    http.finish
  end

  # A server's time-out is met a bit sooner by one connection than by another.
  def test_time_outs_are_never_equally_long
    known = Paceline::HTTP::KeepAlive.new
    known.found_open(5.02)
    assert known.trusts?(4)
    known.found_closed(4.98)
    refute_predicate known, :distrusted?
    assert known.trusts?(3.9)
    refute known.trusts?(4)
    known.found_closed(2)
    assert_predicate known, :distrusted?
    refute known.trusts?(0)
  end

  private

  def get(at = @server)
    Net::HTTP.new("127.0.0.1", at.port).get("/plain")
  end

  def post(at = @server)
    Net::HTTP.new("127.0.0.1", at.port).post("/plain", "x", "Content-Type" => "text/plain")
  end

  # Two connections that wait.
  def both
    Net::HTTP.start("127.0.0.1", @server.port) do |http|
      http.get("/plain")
      get
    end
  end

  def waiting
    Paceline::HTTP.pool.instance_variable_get(:@waiting).values[0]
  end

  # Those that wait, oldest first, as if they had been idle for so long (s).
  def idle(seconds)
    seconds.each { |number, idle| waiting[number].instance_variable_set(:@idle_since, Paceline::HTTP.now - idle) }
  end

  def hang_up
    wires = waiting.dup
    @server.hang_up
    wires.each { |wire| assert wire.io.wait_readable(5) }
  end

  def wait_until_closed(_server)
    assert waiting[0].io.wait_readable(5)
  end
end
