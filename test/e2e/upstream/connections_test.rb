# Connections to the server that answers a site: kept, found closed, closed first, and those that become something else.
require_relative "../support/proxied_site"
require_relative "../support/http2_client"
require_relative "../support/web_socket"

class UpstreamConnectionsTest < Minitest::Test
  include ProxiedSite

  def test_connections_are_kept_and_used_again
    front(scripted(*[OK] * 20))
    20.times { assert_equal "ok", get.body }
    assert_equal 1, @origins.last.connections
    front(scripted(*["HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"] * 3))
    3.times { assert_equal "ok", get.body }
    assert_equal 3, @origins.last.connections
  end

  def test_an_idle_connection_is_closed_here_first
    closed = Queue.new
    front(origin { |link, _|
      link.answer while link.head
      closed << :closed
    })
    assert_equal "ok", get.body
    assert_equal :closed, take(closed)
  end

  # The second request on a connection finds it closed, before or after it was read.
  def stale
    seen = Queue.new
    [seen, origin { |link, number|
      link.answer if (head = link.head)
      seen << [number, head.line] if head
      if (head = link.head)
        seen << [number, head.line]
        number == 1 ? link.io.close : link.answer
      end
    }]
  end

  def test_a_kept_connection_that_was_closed
    seen, server = stale
    front(server)
    assert_equal "ok", get("/1").body
    assert_equal "ok", get("/2").body
    assert_equal [[1, "GET /1 HTTP/1.1"], [1, "GET /2 HTTP/1.1"], [2, "GET /2 HTTP/1.1"]], Array.new(3) { take(seen) }

    seen, server = stale
    front(server)
    assert_equal "ok", get("/1").body
    answer = wire("POST /2 HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 1\r\n\r\nx")
    assert_equal 502, answer.status
    assert_equal 1, server.connections
    @server.wait_for(%r{"POST /2 HTTP/1.1" 502 .*note="upstream http://127.0.0.1:\d+: no response: connection closed before message completed})

    seen, server = stale
    front(server)
    assert_equal "ok", get("/1").body
    assert_equal "ok", wire("PUT /2 HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 1\r\n\r\nx").body
    assert_equal 2, server.connections
  end

  def test_what_is_not_asked_again
    # A byte of an answer has come, or the connection is new.
    ["H", "HTTP/1.1 103 Early Hints\r\n\r\n"].each do |bytes|
      front(begun = origin { |link, _|
        link.answer if link.head
        link.write(bytes) if link.head
      })
      assert_equal "ok", get.body
      assert_equal 502, (@server.connect { |socket|
        socket.write("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
        answer = Wire.response(socket)
        answer = Wire.response(socket) if answer.status == 103
        answer.status
      })
      assert_equal 1, begun.connections
    end
    front(closing = origin { |link, _| link.head })
    assert_equal 502, get.status
    assert_equal 1, closing.connections
  end

  def test_a_web_socket_goes_through
    heads = Queue.new
    front(origin { |link, _|
      heads << (head = link.head)
      accept = [Digest::SHA1.digest(head["sec-websocket-key"] + WebSocket::GUID)].pack("m0")
      # The first frame comes with the answer.
      link.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade, X-Hop\r\nX-Hop: 1\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: #{accept}\r\n\r\n", [0x81, 5].pack("CC"), "first")
      loop do
        _, length = link.io.read(2).to_s.unpack("CC")
        break heads << :left unless length
        mask, data = link.io.read(4).bytes, link.io.read(length & 127)
        link.write([0x81, data.bytesize].pack("CC"), data.bytes.each_with_index.map { |byte, i| byte ^ mask[i & 3] }.pack("C*"))
      end
    })
    WebSocket.open("ws://127.0.0.1:#{@server.port}/cable?x") do |socket|
      assert_equal %w[upgrade websocket], [socket.headers["connection"], socket.headers["upgrade"]]
      assert_nil socket.headers["x-hop"]
      assert_equal "first", socket.read
      socket.write("grüße")
      assert_equal "grüße", socket.read
      socket.instance_variable_get(:@io).close
    end
    head = take(heads)
    assert_equal ["GET /cable?x HTTP/1.1", "upgrade", "websocket"], [head.line, head["connection"], head["upgrade"]]
    assert_equal :left, take(heads)
  end

  def test_a_web_socket_over_http2
    heads = Queue.new
    front(origin { |link, _|
      heads << link.head
      link.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n")
      link.write(link.io.read(5).upcase)
      heads << link.io.read
    })
    @server.connect do |socket|
      client = Http2Client.new(socket)
      stream = client.request({ ":protocol" => "websocket", "sec-websocket-version" => "13" }, method: "CONNECT", path: "/cable", end_stream: false)
      head = take(heads)
      assert_equal ["GET /cable HTTP/1.1", "upgrade", "websocket", "2.0 paceline"], [head.line, *%w[connection upgrade via].map { |name| head[name] }]
      assert_equal 200, client.head(stream)
      client.data(stream, "hello")
      assert_equal "HELLO", client.read.payload
      client.data(stream, "", end_stream: true)
      assert_equal "", take(heads)
    end
  end

  def test_what_is_no_upgrade
    front(scripted(OK, OK, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"))
    get("/", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\n")
    head = take(@heads)
    assert_equal [nil, nil, nil], %w[upgrade connection http2-settings].map { |name| head[name] }
    # Refused by the upstream: the connection goes on.
    @server.connect do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
      assert_equal "ok", Wire.response(socket).body
      assert_equal "websocket", take(@heads)["upgrade"]
      socket.write("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
      assert_equal 502, Wire.response(socket).status
    end
  end
end
