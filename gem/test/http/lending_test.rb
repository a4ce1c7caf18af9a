# frozen_string_literal: true

require_relative "support/case"

# Connections: how many there are, which are used again, which are not, and what is repeated.
class LendingTest < OutboundTest
  def setup
    super
    Paceline::HTTP.install!
    @server = server
  end

  def test_calls_one_after_another_take_one_connection
    20.times { |number| assert_equal "200", get("/echo?#{number}").code }
    assert_equal 1, @server.connections
    assert_equal 1, Paceline::HTTP.pool.size
  end

  def test_what_is_not_installed_opens_its_own
    Paceline::HTTP.uninstall!
    3.times { get("/plain") }
    assert_equal 3, @server.connections
  end

  def test_hosts_may_be_chosen
    Paceline::HTTP.install!(except: ["127.0.0.1"])
    2.times { get("/plain") }
    assert_equal 2, @server.connections
    Paceline::HTTP.install!(only: [/\A127\./])
    2.times { get("/plain") }
    assert_equal 3, @server.connections
    Paceline::HTTP.install!(only: ["*.example.org", "other.test"])
    2.times { get("/plain") }
    assert_equal 5, @server.connections
    assert Paceline::HTTP::Hosts.ride?("API.example.org")
    refute Paceline::HTTP::Hosts.ride?("example.org")
    error = assert_raises(ArgumentError) { Paceline::HTTP.install!(only: ["https://x.test/"]) }
    assert_includes error.message, "is not a host"
  end

  # Who lets it connect to another address, as socksify does, is not passed over.
  def test_where_it_connects_may_be_another_s_business
    kind = Class.new(Net::HTTP) { define_method(:conn_address) { "127.0.0.1" } }
    2.times { assert_equal "200", kind.new("nobody.invalid", @server.port).get("/plain").code }
    assert_equal [2, 0], [@server.connections, Paceline::HTTP.pool.size]
  end

  def test_a_connect_that_was_replaced_makes_its_own_connections
    return if apart

    rubys = Net::HTTP.instance_method(:connect).super_method
    seen = 0
    Net::HTTP.define_method(:connect) do
      seen += 1
      rubys.bind_call(self)
    end
    2.times { get("/plain") }
    assert_equal [2, 2], [@server.connections, seen]
    Net::HTTP.define_method(:connect, rubys)
    2.times { get("/plain") }
    assert_equal 3, @server.connections
  end

  def test_threads_share_what_is_not_in_use
    Array.new(4) { Thread.new { 10.times { get("/plain") } } }.each(&:join)
    assert_operator @server.connections, :<=, 4
    assert_equal @server.connections, Paceline::HTTP.pool.size
  end

  def test_a_session_holds_one_connection_and_gives_it_back
    Net::HTTP.start("127.0.0.1", @server.port) do |http|
      3.times { http.get("/plain") }
      assert_equal 0, Paceline::HTTP.pool.size
    end
    assert_equal 1, Paceline::HTTP.pool.size
    get("/plain")
    assert_equal 1, @server.connections
  end

  def test_a_connection_that_was_closed_meanwhile_is_noticed
    get("/plain")
    closed
    assert_equal "201", post("/plain").code.sub("200", "201")
    assert_equal 2, @server.connections
    assert_equal 2, @server.asked.size
  end

  # The server reads the request, and is gone: only what may be sent twice is sent twice.
  def test_a_close_in_flight_repeats_what_is_idempotent
    session("/race-later") { |http| assert_equal "200", http.get("/plain").code }
    assert_equal(%w[/race-later /plain /plain], @server.asked.map(&:target))
  end

  def test_a_close_in_flight_does_not_repeat_a_post
    session("/race-later") { |http| assert_raises(EOFError) { http.post("/plain", "x", "Content-Type" => "text/plain") } }
    assert_equal(%w[/race-later /plain], @server.asked.map(&:target))
  end

  def test_nothing_is_repeated_on_a_new_connection
    http = Net::HTTP.new("127.0.0.1", @server.port)
    http.max_retries = 0
    assert_raises(EOFError) { http.get("/empty") }
    assert_equal 1, @server.asked.size
  end

  def test_nothing_is_repeated_after_a_byte
    http = Net::HTTP.new("127.0.0.1", @server.port)
    http.max_retries = 0
    http.get("/plain")
    assert_raises(EOFError) { http.get("/chunk-broken") }
    assert_equal(%w[/plain /chunk-broken], @server.asked.map(&:target))
    assert_equal 1, @server.connections
  end

  def test_a_stream_is_rewound_before_it_is_repeated
    session("/race-later") do |http|
      request = Net::HTTP::Put.new("/plain", "Content-Type" => "text/plain", "Content-Length" => "4")
      request.body_stream = StringIO.new("body")
      assert_equal "200", http.request(request).code
    end
    assert_equal(["", "body", "body"], @server.asked.map(&:body))
  end

  def test_what_is_left_over_belongs_to_nobody
    assert_equal "long", get("/long").body
    assert_equal "plain", get("/plain").body
    assert_equal 2, @server.connections
  end

  def test_a_response_that_was_not_read_is_not_left_to_the_next
    http = Net::HTTP.new("127.0.0.1", @server.port)
    catch(:out) { http.request_get("/big") { |response| response.read_body { throw :out } } }
    assert_equal 0, Paceline::HTTP.pool.size
    assert_equal "plain", get("/plain").body
  end

  def test_what_the_server_says_about_keeping_is_believed
    get("/hint")
    get("/plain")
    assert_equal 2, @server.connections
  end

  def test_an_answer_that_came_before_the_body_was_taken
    ours, theirs = UNIXSocket.pair
    theirs.write("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
    theirs.shutdown(Socket::SHUT_RD)
    wire = Paceline::HTTP::Wire.new(ours, :key)
    wire.begin
    wire.write("POST / HTTP/1.1\r\n\r\nbody")
    assert_equal "413", Net::HTTPResponse.read_new(wire).code
  ensure
    [ours, theirs].each(&:close)
  end

  def test_keep_alive_timeout_holds_for_those_who_set_it
    get("/plain")
    http = Net::HTTP.new("127.0.0.1", @server.port)
    http.keep_alive_timeout = 0
    http.get("/plain")
    assert_equal 2, @server.connections
  end

  def test_connections_stay_with_the_process_that_made_them
    get("/plain")
    reader, writer = IO.pipe
    pid = fork do
      reader.close
      code = get("/echo?child").code
      writer.write("#{code} #{Paceline::HTTP.pool.size}")
      writer.close
      exit!(0)
    end
    writer.close
    assert_equal "200 1", reader.read
    Process.wait(pid)
    get("/plain")
    assert_equal 2, @server.connections
  end

  def test_a_session_of_the_parent_is_not_lent_by_the_child
    http = Net::HTTP.start("127.0.0.1", @server.port)
    http.get("/plain")
    pid = fork do
      http.finish
      exit!(Paceline::HTTP.pool.size)
    end
    assert_equal 0, Process.wait2(pid)[1].exitstatus
    assert_equal "200", http.get("/plain").code
    assert_equal 1, @server.connections
    http.finish
  end

  def test_too_many_that_wait_are_closed
    wires = Array.new(40) { Paceline::HTTP::Destination.of(Net::HTTP.new("127.0.0.1", @server.port), "127.0.0.1", @server.port, false, nil).wire(fresh: true) }
    wires.each { |wire| Paceline::HTTP.pool.give(wire) }
    assert_equal 32, Paceline::HTTP.pool.size
    assert_equal 8, wires.count(&:closed?)
  end

  def test_close_closes_what_waits
    get("/plain")
    Paceline::HTTP.close
    assert_equal 0, Paceline::HTTP.pool.size
    get("/plain")
    assert_equal 2, @server.connections
  end

  def test_a_request_with_its_body_leaves_in_one_write
    io = Class.new { attr_reader :written; def write_nonblock(string, **) = (@written ||= []) << string && string.bytesize }.new
    wire = Paceline::HTTP::Wire.new(io, :key)
    wire.begin
    request = Net::HTTP::Post.new("/", "Content-Type" => "text/plain")
    request.body = "body"
    request.exec(wire, "1.1", "/")
    assert_equal 1, io.written.size
    assert io.written[0].end_with?("\r\n\r\nbody")
  end

  private

  def get(path)
    Net::HTTP.new("127.0.0.1", @server.port).get(path)
  end

  def post(path)
    Net::HTTP.new("127.0.0.1", @server.port).post(path, "x", "Content-Type" => "text/plain")
  end

  # A session without retries of its own, that has asked for this path.
  def session(path)
    http = Net::HTTP.new("127.0.0.1", @server.port)
    http.max_retries = 0
    http.start do
      http.get(path)
      yield http
    end
  end

  # The server has closed, and we have been told: what is waited for is the end of a connection.
  def closed
    wire = Paceline::HTTP.pool.instance_variable_get(:@waiting).values[0][0]
    @server.hang_up
    assert wire.io.wait_readable(5)
  end
end
