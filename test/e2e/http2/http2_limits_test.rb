# What an HTTP/2 client may not do to the server: floods, silences and answers not taken each end in bounded time, and
# others are served meanwhile. The limits are in docs/limits.md.
require_relative "../support/scenario"
require_relative "../support/http2_attacker"

class Http2LimitsTest < Minitest::Test
  include Scenario

  APP = <<~'RUBY'.freeze
    large = "x" * 3_000_000
    run lambda { |env|
      case env["PATH_INFO"]
      when "/large" then [200, {}, [large]]
      when "/huge" then [200, {}, Array.new(1200) { "x" * 65_536 }]
      when "/stream" then [200, {}, Enumerator.new { |out| 800.times { out << "x" * 65_536 } }]
      when "/wait" then File.read("barrier"); [200, {}, ["waited"]]
      when "/read" then
        body = begin
          env["rack.input"].read.to_s.bytesize.to_s
        rescue => error
          error.class.name
        end
        [200, {}, [body]]
      else [200, {}, ["hello"]]
      end
    }
  RUBY
  MB = 1 << 20

  def start(*arguments, **toml)
    text = toml.map { |key, value| "#{key} = #{value.inspect}\n" }.join
    dir = app("config.ru" => APP, "paceline.toml" => text, "public/file.bin" => "f" * 2 * MB)
    serve(dir, "-t", "5", *arguments)
  end

  def attacker(server, settings = {})
    (@clients ||= []) << Http2Attacker.new(server.connect, settings)
    @clients.last
  end

  def teardown
    super
    Array(@clients).each(&:close)
  end

  # While the block runs another client asks again and again, and is always answered. Afterwards the front holds nothing of
  # whoever misbehaved.
  def undisturbed(server)
    assert_equal "hello", server.get("/").body
    memory, done, bodies = server.private_memory, false, []
    other = Thread.new do
      Net::HTTP.start("127.0.0.1", server.port, read_timeout: PATIENCE) do |http|
        bodies << http.get("/").body until done && bodies.size >= 5
      end
    end
    other.report_on_exception = false
    result = yield
    done = true
    other.value
    assert_equal ["hello"], bodies.uniq
    Array(@clients).each(&:close)
    @clients = nil
    eventually("the connections to be gone") { server.state[:places] <= [Etc.nprocessors, 2].max }
    eventually("the memory for bodies to be free") { server.state[:buffered].zero? }
    assert_operator server.private_memory - memory, :<, 40 * MB
    assert_equal "hello", server.get("/").body
    result
  end

  # --- floods

  def assert_flood_ends(name, times: 50_000, settings: {}, toml: {}, &frames)
    server = start(**toml)
    ended = undisturbed(server) do
      client = attacker(server, settings)
      client.flood(frames.call(client), times)
    end
    # A close may overtake the GOAWAY when the client goes on sending.
    assert_includes [Http2Attacker::CALM, :closed], ended, name
  end

  def test_a_flood_of_settings
    assert_flood_ends("SETTINGS") { |client| client.frame_bytes(Http2Client::SETTINGS, 0, 0, [4, 70_000].pack("nN")) }
  end

  def test_a_flood_of_pings
    assert_flood_ends("PING") { |client| client.frame_bytes(Http2Client::PING, 0, 0, "12345678") }
  end

  def test_a_flood_of_priorities
    assert_flood_ends("PRIORITY") { |client| client.frame_bytes(Http2Attacker::PRIORITY, 0, 1, [0, 16].pack("NC")) }
  end

  def test_a_flood_of_window_updates
    assert_flood_ends("WINDOW_UPDATE") { |client| client.frame_bytes(Http2Client::WINDOW_UPDATE, 0, 0, [1].pack("N")) }
  end

  def test_a_flood_of_frames_that_nobody_knows
    assert_flood_ends("unknown") { |client| client.frame_bytes(Http2Attacker::UNKNOWN, 0, 0, "what") }
  end

  def test_a_flood_of_empty_data
    assert_flood_ends("DATA") do |client|
      stream = client.request({}, method: "POST", path: "/read", end_stream: false)
      client.frame_bytes(Http2Client::DATA, 0, stream)
    end
  end

  # CVE-2024-27316: the header block never ends.
  def test_a_flood_of_continuations
    assert_flood_ends("CONTINUATION") do |client|
      client.frame(Http2Client::HEADERS, 1, 1, client.encode(":method" => "GET"))
      client.frame_bytes(Http2Client::CONTINUATION, 0, 1)
    end
    assert_flood_ends("CONTINUATION with fields") do |client|
      client.frame(Http2Client::HEADERS, 1, 1, client.encode(":method" => "GET"))
      client.frame_bytes(Http2Client::CONTINUATION, 0, 1, client.encode("x-long" => "y" * 8000))
    end
  end

  # 4 KB in HPACK's table, named again and again by one byte each.
  def test_a_small_header_block_that_expands
    server = start
    ended = undisturbed(server) do
      client = attacker(server)
      block = client.encode(":method" => "GET", ":path" => "/", ":scheme" => "http", ":authority" => "a")
      block << "\x40".b << client.encode("x" => "y" * 4000)[1..] << "\xbe".b * 12_000
      client.frame(Http2Client::HEADERS, 5, 1, block)
      client.ending
    end
    assert_equal Http2Attacker::CALM, ended
  end

  # CVE-2025-8671, "made you reset": each stream is a request, and each frame makes the server take it back.
  def test_streams_that_the_server_is_made_to_reset_by_windows_too_large
    assert_resets_end { |client, stream| client.frame_bytes(Http2Client::WINDOW_UPDATE, 0, stream, [0x7fff_ffff].pack("N")) }
  end

  def test_streams_that_the_server_is_made_to_reset_by_dependence_on_themselves
    assert_resets_end { |client, stream| client.frame_bytes(Http2Attacker::PRIORITY, 0, stream, [stream, 16].pack("NC")) }
  end

  def assert_resets_end(&wrong)
    server = start
    ended = undisturbed(server) do
      client = attacker(server)
      request = client.encode(":method" => "GET", ":path" => "/", ":scheme" => "http", ":authority" => "a")
      frames = (1..2001).step(2).map { |stream| client.frame_bytes(Http2Client::HEADERS, 5, stream, request) + wrong.call(client, stream) }
      client.flood(frames.join, 1)
    end
    assert_includes [Http2Attacker::CALM, :closed], ended
  end

  def test_more_streams_than_there_may_be
    server = start(http2_streams: 10)
    gate = barrier(server.dir)
    client = attacker(server)
    assert_equal 10, client.settings[Http2Attacker::MAX_STREAMS]
    waiting = Array.new(10) { client.request({}, path: "/wait", method: "POST", end_stream: false) }
    assert_equal [:reset, Http2Attacker::REFUSED_STREAM], client.response(client.request)
    waiting.each { |stream| client.reset(stream) }
    assert_equal [200, "hello"], client.response(client.request)

    ended = undisturbed(server) do
      endless = attacker(server)
      10.times { endless.request({}, path: "/read", method: "POST", end_stream: false) }
      request = endless.encode(":method" => "GET", ":path" => "/", ":scheme" => "http", ":authority" => "a")
      endless.flood((21..2021).step(2).map { |stream| endless.frame_bytes(Http2Client::HEADERS, 5, stream, request) }.join, 1)
    end
    assert_includes [Http2Attacker::CALM, :closed], ended
    assert gate
  end

  # Those who give back what they have taken, in the smallest of steps, are no flood.
  def test_a_long_download_is_no_flood
    server = start
    client = attacker(server)
    status, body = client.response(client.request({}, path: "/huge"))
    assert_equal [200, 1200 * 65_536], [status, body&.bytesize]
  end

  def test_a_window_that_opens_by_single_bytes
    assert_flood_ends("bytes", settings: { Http2Attacker::INITIAL_WINDOW_SIZE => 0 }) do |client|
      client.frame_bytes(Http2Client::WINDOW_UPDATE, 0, client.request({}, path: "/large"), [1].pack("N"))
    end
  end

  # --- time-outs of reading

  def test_a_client_that_does_not_begin
    server = start(head_timeout: "300ms")
    undisturbed(server) do
      preface = Http2Client::PREFACE
      [preface[0, 10], preface, preface + "\0\0\6\4\0\0\0\0\0".b, preface + "\0\0\x08\6\0\0\0\0\0abcdefgh".b].each do |beginning|
        server.connect do |socket|
          socket.write(beginning)
          socket.read
        end
      end
    end
  end

  def test_a_header_block_that_does_not_end
    server = start(head_timeout: "300ms")
    undisturbed(server) do
      client = attacker(server)
      client.frame(Http2Client::HEADERS, 1, 1, client.encode(":method" => "GET"))
      assert_equal Http2Attacker::CALM, client.ending
      # Amid a frame there is no place for a word.
      half = attacker(server)
      half.instance_variable_get(:@io).write("\0\0\x20\1\4\0\0\0\1abc")
      assert_nil half.ending
    end
  end

  def test_a_header_block_in_single_bytes_has_the_same_time
    server = start(head_timeout: "300ms")
    undisturbed(server) do
      client = attacker(server)
      io = client.instance_variable_get(:@io)
      io.write("\0\x40\0\1\4\0\0\0\1")
      gone = (1..2000).find do
        io.write("a")
        io.wait_readable(0.01)
      rescue SystemCallError
        true
      end
      assert gone, "the server took all of it"
      assert_nil client.ending
    end
  end

  # What has been begun and ended in time leaves the connection all the time it has.
  def test_a_connection_between_requests_is_not_in_a_hurry
    server = start(head_timeout: "200ms")
    client = attacker(server)
    assert_equal [200, "hello"], client.response(client.request)
    sleep 0.5 # longer than a head may take
    assert_equal [200, "hello"], client.response(client.request)
  end

  def test_a_body_that_does_not_come_gets_408_and_holds_nobody
    server = start("-w", "1", body_timeout: "3s")
    undisturbed(server) do
      client = attacker(server)
      late = client.request({}, path: "/read", method: "POST", end_stream: false)
      client.data(late, "x" * 10)
      eventually("a moment in which no worker is busy") { server.state[:busy].zero? }
      assert_equal [200, "hello"], client.response(client.request)
      status, body = client.response(late)
      assert_equal 408, status
      assert_match(/came too slowly/, body)
      assert_equal [200, "hello"], client.response(client.request)
    end
    server.wait_for(/"POST \/read HTTP\/2.0" 408 .*refused: The body of this request came too slowly/)
  end

  def test_a_streamed_body_that_does_not_come_frees_its_worker
    server = start("-w", "1", body_timeout: "400ms", buffer_requests: false)
    undisturbed(server) do
      client = attacker(server)
      late = client.request({}, path: "/read", method: "POST", end_stream: false)
      client.data(late, "x" * 10)
      assert_kind_of Integer, client.response(late).first
      eventually("the worker to be free") { server.state[:busy].zero? }
      assert_equal [200, "hello"], client.response(client.request)
    end
  end

  def test_a_slow_body_that_goes_on_is_taken
    server = start(body_timeout: "1500ms")
    client = attacker(server)
    stream = client.request({}, path: "/read", method: "POST", end_stream: false)
    12.times do
      client.data(stream, "x" * 2048)
      sleep 0.2 # the slowness itself is what is tried
    end
    client.data(stream, "", end_stream: true)
    assert_equal [200, (12 * 2048).to_s], client.response(stream)
  end

  # --- answers that are not taken

  def test_a_window_that_stays_closed_costs_the_stream
    server = start(write_timeout: "400ms")
    undisturbed(server) do
      client = attacker(server, Http2Attacker::INITIAL_WINDOW_SIZE => 0)
      %w[/large /file.bin /stream /].each do |path|
        stream = client.request({}, path: path)
        assert_equal [:reset, Http2Attacker::CANCEL], client.response(stream), path
      end
      other = client.request
      client.window_update(other, 1000)
      assert_equal [200, "hello"], client.response(other)
      eventually("the workers to be free") { server.state[:busy].zero? }
    end
    server.wait_for(/"GET \/large HTTP\/2.0" 200 .*cut=1/)
  end

  # Too little of it counts as nothing.
  def test_a_window_that_opens_slowly_costs_the_stream
    server = start(write_timeout: "400ms")
    undisturbed(server) do
      client = attacker(server, Http2Attacker::INITIAL_WINDOW_SIZE => 0)
      stream = client.request({}, path: "/large")
      drip = Thread.new do
        loop do
          client.window_update(stream, 1)
          sleep 0.02 # the slowness itself is what is tried
        end
      rescue IOError, SystemCallError
        nil
      end
      ended = nil
      ended = client.read until ended&.type == Http2Client::RST_STREAM
      assert_equal Http2Attacker::CANCEL, ended.payload.unpack1("N")
      drip.kill.join
      other = client.request
      client.window_update(other, 1000)
      assert_equal [200, "hello"], client.response(other)
    end
  end

  # The last bytes are with the library, which can't take them back: the connection ends, after what else is in hand.
  def test_an_end_that_is_not_taken_costs_the_connection
    server = start(write_timeout: "400ms")
    undisturbed(server) do
      client = attacker(server, Http2Attacker::INITIAL_WINDOW_SIZE => 1)
      client.request
      assert_equal 0, client.ending
    end
  end

  def test_a_socket_that_stays_full_costs_the_connection
    server = start(write_timeout: "400ms")
    undisturbed(server) do
      client = attacker(server, Http2Attacker::INITIAL_WINDOW_SIZE => 0x7fff_ffff)
      client.window_update(0, 0x7000_0000)
      client.request({}, path: "/huge")
      server.wait_for(/"GET \/huge HTTP\/2.0" 200 .*cut=1/)
    end
  end

  # Several times the time-out, with a pause now and then.
  def test_a_slow_reader_gets_all_of_it
    server = start(write_timeout: "2s")
    client = attacker(server, Http2Attacker::INITIAL_WINDOW_SIZE => 0)
    client.window_update(0, 0x7000_0000)
    stream = client.request({}, path: "/large")
    got = 0
    until got >= 3_000_000
      client.window_update(stream, 250_000)
      before = got
      got += client.read.then { |one| one.type == Http2Client::DATA ? one.payload.bytesize : 0 } until got - before >= [250_000, 3_000_000 - before].min
      sleep 0.3 # the slowness itself is what is tried
    end
    assert_equal 3_000_000, got
  end

  # An answer that is on its way is no idleness, also when the app and the front are done with it.
  def test_a_connection_with_an_answer_under_way_is_not_idle
    server = start(http2_idle_timeout: "1s")
    client = attacker(server, Http2Attacker::INITIAL_WINDOW_SIZE => 1)
    stream = client.request
    assert_equal 200, client.head(stream)
    assert_equal "h", client.read.payload
    assert_raises(Timeout::Error) { client.read(timeout: 3) }
    client.window_update(stream, 100)
    assert_equal "ello", client.read.payload
    assert_equal 0, client.ending
  end

  # One byte of each of a thousand files is asked for. Without a bound the front would hold 128 KB of each.
  def test_many_streams_that_nobody_reads_take_no_more_memory_than_they_may
    server = start(buffer_memory: "4MB", http2_streams: 100)
    undisturbed(server) do
      clients = Array.new(10) { attacker(server, Http2Attacker::INITIAL_WINDOW_SIZE => 1) }
      memory = server.private_memory
      clients.each { |client| 100.times { client.request({}, path: "/file.bin") } }
      clients.each do |client|
        heads = 0
        heads += 1 if client.read.type == Http2Client::HEADERS until heads == 100
      end
      assert_operator server.state[:buffered], :<=, 4 * MB
      assert_operator server.private_memory - memory, :<, 30 * MB
    end
  end
end
