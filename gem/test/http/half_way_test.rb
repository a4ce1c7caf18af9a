# frozen_string_literal: true

require_relative "support/case"

# Requests that are left half-way within a session: the next one gets a response of its own, on another connection. And bodies that come bit by bit.
class HalfWayTest < OutboundTest
  def setup
    super
    Paceline::HTTP.install!
    @server = server
  end

  def test_by_throw
    leave { |http| catch(:out) { http.request_get("/big") { |response| response.read_body { throw :out } } } }
  end

  def test_by_break
    leave { |http| http.request_get("/big") { break } }
  end

  def test_by_a_body_that_is_broken_off
    leave { |http| http.request_get("/big") { |response| response.read_body { break } } }
  end

  def test_by_an_error
    leave { |http| assert_raises(ArgumentError) { http.request_get("/big") { |response| response.read_body { raise ArgumentError } } } }
  end

  def test_by_a_time_out
    leave { |http| assert_raises(Timeout::Error) { Timeout.timeout(0.2) { http.get("/stall-body") } } }
  end

  def test_by_what_another_thread_raises
    leave do |http|
      there = Queue.new
      thread = Thread.new do
        http.request_get("/stall-body") { |response| response.read_body { there << true } }
      rescue Interrupt
        nil
      end
      there.pop
      thread.raise(Interrupt)
      thread.join
    end
  end

  def test_by_the_end_of_a_thread
    leave do |http|
      there = Queue.new
      thread = Thread.new { http.request_get("/stall-body") { |response| response.read_body { there << true } } }
      there.pop
      thread.kill.join
    end
  end

  def test_by_a_fiber_that_is_not_resumed
    pieces = nil
    leave do |http|
      pieces = Enumerator.new { |all| http.request_get("/big") { |response| response.read_body { |piece| all << piece } } }
      assert HostileServer::BIG.start_with?(pieces.next)
    end
    assert pieces
  end

  # Net::HTTP would send it on the connection that the response still comes from.
  def test_a_request_within_the_body_of_another
    got = +""
    inner = nil
    Net::HTTP.start("127.0.0.1", @server.port) do |http|
      http.request_get("/big") do |response|
        response.read_body do |piece|
          got << piece
          inner ||= http.get("/plain").body
        end
      end
      assert_equal "root", http.get("/").body
    end
    assert_equal [HostileServer::BIG, "plain", 2, 1], [got, inner, @server.connections, Paceline::HTTP.pool.size]
  end

  # Each piece is at the server before the next one is there.
  def test_a_body_in_chunks_leaves_piece_by_piece
    sent_piece_by_piece("Transfer-Encoding: chunked", %w[one two three]) { |request| request["Transfer-Encoding"] = "chunked" }
  end

  def test_a_body_with_a_length_leaves_piece_by_piece
    sent_piece_by_piece("Content-Length: 11", %w[one two three]) { |request| request.content_length = 11 }
  end

  def test_a_form_in_chunks_leaves_piece_by_piece
    sent_piece_by_piece("Transfer-Encoding: chunked", %w[one two three]) do |request, stream|
      request["Transfer-Encoding"] = "chunked"
      request.body_stream = nil
      request.set_form([["file", stream, { filename: "a.txt" }]], "multipart/form-data")
    end
  end

  # What the server says before the body is complete is seen by who makes the body.
  def test_what_is_written_after_the_head_is_not_held_back
    ours, theirs = UNIXSocket.pair
    wire = Paceline::HTTP::Wire.new(ours, :key)
    wire.begin
    wire.write("POST / HTTP/1.1\r\n\r\n")
    assert_nil theirs.wait_readable(0)
    wire.write("a", "b")
    assert_equal "POST / HTTP/1.1\r\n\r\nab", theirs.read_nonblock(100)
    wire.write("c")
    assert_equal "c", theirs.read_nonblock(100)
  ensure
    [ours, theirs].each(&:close)
  end

  private

  # The block leaves a request of the session that it is given.
  def leave
    Net::HTTP.start("127.0.0.1", @server.port) do |http|
      http.max_retries = 0
      yield http
      assert_equal "plain", http.get("/plain").body
      assert_equal "root", http.get("/").body
    end
    assert_equal [2, 1], [@server.connections, Paceline::HTTP.pool.size]
  end

  # Gives pieces, each when the one before has come to the server.
  class Stream
    def initialize(pieces, &came)
      @pieces = pieces.dup
      @came = came
    end

    def read(_length = nil, into = nil)
      @came.call
      piece = @pieces.shift&.dup or return
      into ? into.replace(piece) : piece
    end
  end

  def sent_piece_by_piece(head, pieces)
    listener = TCPServer.new("127.0.0.1", 0)
    peer = nil
    got = +""
    expected = [head, *pieces]
    stream = Stream.new(pieces) do
      peer ||= listener.accept
      if (part = expected.shift)
        got << peer.read_nonblock(10_000) while !got.include?(part) && (peer.wait_readable(5) or flunk("#{part} has not come: #{got}"))
      end
      # The response is there before it is asked for.
      peer.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") if part == pieces.last
    end
    request = Net::HTTP::Post.new("/", "Content-Type" => "text/plain")
    request.body_stream = stream
    yield request, stream
    assert_equal "200", Net::HTTP.new("127.0.0.1", listener.addr[1]).request(request).code
    assert_empty expected
  ensure
    peer&.close
    listener.close
  end
end
