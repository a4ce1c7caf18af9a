# The end of a server: no request fails that a client sends on a connection it has, and each client is told to go.
require_relative "../support/scenario"
require_relative "../support/http2_client"
require_relative "../support/wire"

class DrainTest < Minitest::Test
  include Scenario

  HELLO = 'run ->(env) { [200, {}, ["hello"]] }'.freeze
  HELD = 'run ->(env) { if env["PATH_INFO"] == "/held" then File.write("entered", "x"); File.read("barrier"); end; [200, {}, [env["PATH_INFO"]]] }'.freeze
  STOPPING = /^\* Stopping: requests in hand are finished first$/
  CROWD = 25

  def ask(socket, path = "/") = socket.write("GET #{path} HTTP/1.1\r\nHost: x\r\n\r\n")

  def closed?(socket) = Timeout.timeout(PATIENCE) { socket.read(1).nil? }

  # Asks on one connection until told that it ends, again and again until nobody listens. What came of each request.
  def visit(server)
    answers, new = [], true
    loop do
      new = true
      socket = server.connect
      loop do
        ask(socket)
        answer = Wire.response(socket)
        answers << "#{answer.status} #{answer.body}"
        new = false
        break unless answer["connection"].nil?
      end
      socket.close
    end
  rescue Errno::ECONNREFUSED
    answers
  rescue EOFError, SystemCallError => error
    # The kernel completes connections by itself: one that comes between the last accept and the end of the listener is reset,
    # which is how it says "refused" then.
    reset = [Errno::ECONNRESET, Errno::EPIPE].include?(error.class)
    new && reset ? answers : answers << error.class
  end

  def test_no_request_fails_when_the_server_is_told_to_stop
    server = serve(app("config.ru" => HELLO), "-w", "2", "-t", "2")
    visitors = Array.new(CROWD) { Thread.new { visit(server) } }
    eventually("some answers") { server.output.scan("GET / ").size > 3 * CROWD }
    server.signal(:TERM)

    answers = visitors.map(&:value)
    assert_equal ["200 hello"], answers.flatten.uniq
    assert_equal 0, server.wait.exitstatus
  end

  # The parser would add `keep-alive` beside it, by which ab and its like ask once more.
  def test_a_client_of_http_1_0_is_told_nothing_but_close
    dir = app("config.ru" => HELD)
    gate, entered = barrier(dir), barrier(dir, "entered")
    server = serve(dir, "-w", "1", "-t", "1")
    server.connect do |socket|
      keep = ->(path) { socket.write("GET #{path} HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n") }
      keep.call("/")
      assert_equal "keep-alive", Wire.response(socket)["connection"]
      keep.call("/held")
      entered.wait
      server.signal(:TERM)
      server.wait_for(STOPPING)
      gate.open
      answer = Wire.response(socket)
      assert_equal ["/held", "close"], [answer.body, answer["connection"]]
      assert closed?(socket)
    end
  end

  def test_an_idle_connection_may_ask_once_more_and_is_told_that_this_is_all
    dir = app("config.ru" => HELD)
    gate, entered = barrier(dir), barrier(dir, "entered")
    server = serve(dir, "-w", "1", "-t", "2")
    sockets = Array.new(3) { server.connect }
    sockets.first(2).each { |socket| ask(socket); assert_nil Wire.response(socket)["connection"] }
    # It rests without a parser.
    eventually("rest") { server.state[:resting] == 2 }
    held = server.connect
    ask(held, "/held")
    entered.wait

    server.signal(:TERM)
    server.wait_for(STOPPING)
    sockets.first(2).each { |socket| ask(socket, "/again") }
    sockets.first(2).each do |socket|
      answer = Wire.response(socket)
      assert_equal ["/again", "close"], [answer.body, answer["connection"]]
      assert closed?(socket)
    end
    # One that never asked has no answer to be told in.
    assert closed?(sockets.last)
    gate.open
    answer = Wire.response(held)
    assert_equal ["/held", "close"], [answer.body, answer["connection"]]
    assert closed?(held)
    assert_equal 0, server.wait.exitstatus
  end

  def test_what_was_sent_ahead_is_answered_before_the_connection_ends
    dir = app("config.ru" => HELD)
    gate, entered = barrier(dir), barrier(dir, "entered")
    server = serve(dir, "-w", "1", "-t", "1")
    socket = server.connect
    socket.write(%w[/held /second /third].map { |path| "GET #{path} HTTP/1.1\r\nHost: x\r\n\r\n" }.join)
    entered.wait
    server.signal(:TERM)
    server.wait_for(STOPPING)
    gate.open

    answers = Array.new(3) { Wire.response(socket) }
    assert_equal %w[/held /second /third], answers.map(&:body)
    assert_equal [nil, nil, "close"], answers.map { |answer| answer["connection"] }
    assert closed?(socket)
    assert_equal 0, server.wait.exitstatus
  end

  def test_http2_is_told_with_goaway_and_its_streams_are_finished
    dir = app("config.ru" => HELD)
    gate, entered = barrier(dir), barrier(dir, "entered")
    server = serve(dir, "-w", "1", "-t", "1")
    server.connect do |socket|
      client = Http2Client.new(socket)
      stream = client.request(path: "/held")
      entered.wait
      server.signal(:TERM)
      frame = client.read
      assert_equal [Http2Client::GOAWAY, 0], [frame.type, frame.payload[4, 4].unpack1("N")]
      gate.open
      assert_equal [200, "/held"], client.response(stream)
      assert_includes [0, nil], client.ending
    end
    assert_equal 0, server.wait.exitstatus
  end

  def test_a_load_balancer_has_time_to_notice
    server = serve(app("config.ru" => HELLO), "--shutdown-delay", "1h")
    server.connect do |socket|
      ask(socket)
      assert_nil Wire.response(socket)["connection"]
      server.signal(:TERM)
      server.wait_for(/^\* Draining: new connections are taken for 1h more$/)
      ask(socket)
      assert_equal "close", Wire.response(socket)["connection"]
    end
    # Who comes now is served, too.
    assert_equal "hello", server.get("/").body
    refute_match(STOPPING, server.output)
    eventually("a second TERM to be heard") { server.signal(:TERM) unless server.ended?; server.ended? }
    assert_match(/^\* Stopping at once$/, server.output)
  end
end
