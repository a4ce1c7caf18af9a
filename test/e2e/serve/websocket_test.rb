# WebSockets as a library on the full hijack would serve them: handshake, messages both ways, both ends of a close.
require_relative "../support/control"
require_relative "../support/web_socket"

class WebsocketTest < Minitest::Test
  include Scenario
  include Control

  APP = <<~'RUBY'
    require "digest"
    def exactly(io, length) = length.zero? ? "" : io.read(length)
    # Echoes text, closes when told to.
    def serve(io)
      loop do
        first, second = (io.read(2) || break).bytes
        length = second & 127
        length = io.read(2).unpack1("n") if length == 126
        length = io.read(8).unpack1("Q>") if length == 127
        mask = io.read(4).bytes
        text = exactly(io, length).bytes.each_with_index.map { |byte, i| byte ^ mask[i & 3] }.pack("C*")
        head = length < 126 ? [first, length].pack("CC") : length < 65_536 ? [first, 126, length].pack("CCn") : [first, 127, length].pack("CCQ>")
        io.write(head + text)
        break if first & 15 == 8
      end
      File.write("ended", "x")
    ensure
      io.close
    end
    run lambda { |env|
      next [200, { "content-type" => "text/plain" }, ["plain"]] unless env["HTTP_UPGRADE"] == "websocket"
      accept = [Digest::SHA1.digest(env["HTTP_SEC_WEBSOCKET_KEY"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")].pack("m0")
      env["rack.hijack"].call
      io = env["rack.hijack_io"]
      io.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: #{accept}\r\n\r\n")
      Thread.new { serve(io) }
      [-1, {}, []]
    }
  RUBY

  def setup
    @server = serve(@dir = app("config.ru" => APP), "-t", "1")
    @ended = barrier(@dir, "ended")
    @url = "ws://127.0.0.1:#{@server.port}/"
  end

  def test_messages_of_every_size_come_back
    WebSocket.open(@url) do |socket|
      ["hello", "grüße", "x" * 125, "y" * 126, "z" * 70_000].each do |text|
        socket.write(text)
        assert_equal text, socket.read
      end
      assert_equal "plain", @server.get("/").body
    end
    assert_equal "x", @ended.wait
  end

  def test_many_sockets_share_one_thread
    sockets = Array.new(20) { WebSocket.new(@url) }
    sockets.each_with_index { |socket, i| socket.write("number #{i}") }
    assert_equal Array.new(20) { |i| "number #{i}" }, sockets.map(&:read)
    assert_equal "plain", @server.get("/").body
  ensure
    sockets.each(&:close)
  end

  def test_sockets_are_spread_over_the_workers_and_status_shows_them
    server = serve(app("config.ru" => APP), "-w", "3", "-t", "1")
    busy = -> { control(server, "/status")["sites"].values.first["queue"]["busy"] }
    open = lambda do |count|
      Array.new(count) { WebSocket.new("ws://127.0.0.1:#{server.port}/").tap { eventually("its thread") { busy.call.zero? } } }
    end
    hijacked = -> { generations(server)["generations"].flat_map { |generation| generation["workers"].map { |worker| worker["hijacked"] } } }
    sockets = open.call(9)
    assert_equal [3, 3, 3], hijacked.call
    assert_equal 3, command(server.dir, "status")[0].scan(%r{ 0/1, 3 hijacked \(WebSockets\)$}).size
    sockets.each(&:close)
    eventually("their ends") { hijacked.call == [0, 0, 0] }
    sockets = open.call(2)
    assert_equal [0, 1, 1], hijacked.call.sort
  ensure
    sockets&.each(&:close)
  end

  def test_a_client_that_goes_without_a_word_ends_the_app_s_side
    socket = WebSocket.new(@url)
    socket.instance_variable_get(:@io).close
    assert_equal "x", @ended.wait
  end
end
