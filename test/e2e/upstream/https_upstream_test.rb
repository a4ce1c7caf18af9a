# An upstream over TLS: whom it has to be, HTTP/2 and HTTP/1.1, connections that end, streams, and what goes wrong.
require_relative "../support/proxied_site"
require_relative "../support/secure_origin"
require_relative "../support/web_socket"

class UpstreamTlsTest < Minitest::Test
  include ProxiedSite
  include SecureOrigin

  def authority = @authority ||= Authority.new

  # A site with this origin, whose authority it trusts.
  def trusting(origin, toml: "", host: "localhost", files: {}, **more)
    files = { "ca.pem" => authority.certificate.to_pem }.merge(files)
    front("https://#{host}:#{origin.port}", toml: "upstream_ca_file = \"ca.pem\"\n#{toml}", files: files, **more)
  end

  # Answers each request; their heads go to @heads.
  def answering(*names, alpn: nil, change: nil)
    @heads = heads = Queue.new
    secure(authority, *names, alpn: alpn, change: change) do |link, *|
      while (head = link.head)
        link.body(head)
        heads << head
        link.answer
      end
    end
  end

  def expired
    lambda do |context|
      context.cert.not_after = Time.now - 10
      context.cert.sign(authority.instance_variable_get(:@key), "SHA256")
    end
  end

  # --- certificates

  def test_an_upstream_whose_certificate_is_refused_gets_no_request
    secret = "Authorization: Bearer s3cret-token\r\nCookie: session=s3cret-cookie\r\n"
    [["expired", answering("localhost", change: expired), "certificate expired"],
      ["misnamed", answering("other.example"), "certificate not valid for name"],
      ["unknown", answering("localhost"), "UnknownIssuer"]].each do |name, server, why|
      files = { "public/502.html" => "<p>back soon" }
      if name == "unknown"
        front("https://localhost:#{server.port}", files: files)
      else
        trusting(server, files: files)
      end
      answer = get("/", "Accept: text/html\r\n#{secret}")
      assert_equal [502, "<p>back soon"], [answer.status, answer.body], name
      @server.wait_for(%r{502 .*note="upstream https://localhost:#{server.port}: no connection: invalid peer certificate: .*#{why}})
      assert_empty @heads, name
      refute_match(/s3cret/, @server.output, name)
    end
  end

  def test_the_certificates_of_the_machine
    server = answering("localhost", "127.0.0.1")
    file = File.join(app, "ca.pem")
    File.write(file, authority.certificate.to_pem)
    ["localhost", "127.0.0.1"].each do |host|
      front("https://#{host}:#{server.port}", env: { "SSL_CERT_FILE" => file, "SSL_CERT_DIR" => "/nonexistent" })
      assert_equal "ok", get.body, host
    end
  end

  def test_own_certificates_replace_those_of_the_machine
    other = Authority.new
    file = File.join(app, "ca.pem")
    File.write(file, authority.certificate.to_pem)
    server = answering("localhost")
    front("https://localhost:#{server.port}", toml: "upstream_ca_file = \"other.pem\"\n", files: { "other.pem" => other.certificate.to_pem },
      env: { "SSL_CERT_FILE" => file })
    assert_equal 502, get.status
    assert_empty @heads
  end

  def test_the_name_that_is_verified_is_asked_for
    asked = Queue.new
    server = answering("wiki.internal", change: ->(context) { context.servername_cb = ->((_, name)) { asked << name && nil } })
    trusting(server, host: "127.0.0.1", toml: "upstream_tls_name = \"wiki.internal\"\n")
    assert_equal "ok", get.body
    assert_equal ["wiki.internal", "shop.test"], [take(asked), take(@heads)["host"]]
    trusting(server, host: "127.0.0.1")
    assert_equal 502, get.status
    assert_empty @heads
  end

  def test_an_upstream_that_speaks_no_tls
    plain = origin do |link, _|
      link.io.readpartial(10_000)
      link.answer("speak HTTP", status: "400 Bad Request")
      link.io.read
    end
    front("https://localhost:#{plain.port}")
    assert_equal 502, get.status
    @server.wait_for(/502 .*no connection: .*(InvalidContentType|corrupt message)/)
  end

  def test_a_handshake_that_does_not_end
    silent = origin { |link, _| link.io.read }
    front("https://localhost:#{silent.port}", toml: "upstream_connect_timeout = \"200ms\"\n", files: { "public/504.html" => "<p>later" })
    answer = get("/", "Accept: text/html\r\n")
    assert_equal [504, "<p>later"], [answer.status, answer.body]
    @server.wait_for(/504 .*no connection within 200ms \(upstream_connect_timeout\)/)
  end

  # --- HTTP/1.1

  def test_an_upstream_that_speaks_http1_only
    [nil, ["http/1.1"]].each do |alpn|
      server = answering("localhost", alpn: alpn)
      trusting(server)
      3.times { assert_equal "ok", get.body }
      assert_equal 1, server.connections
      head = take(@heads)
      assert_equal ["GET / HTTP/1.1", "shop.test", "http"], [head.line, head["host"], head["x-forwarded-proto"]]
    end
  end

  def test_a_kept_connection_of_http1_that_was_closed
    stale = lambda do
      secure(authority, "localhost") do |link, number, _|
        link.answer if link.head
        head = link.head
        link.answer if head && number > 1
      end
    end
    trusting(server = stale.call)
    2.times { assert_equal "ok", get.body }
    assert_equal 2, server.connections
    trusting(server = stale.call)
    assert_equal "ok", get.body
    assert_equal 502, wire("POST / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 1\r\n\r\nx").status
    assert_equal 1, server.connections
  end

  def test_a_web_socket_gets_a_connection_of_http1
    spoken = Queue.new
    server = secure(authority, "localhost", alpn: %w[h2 http/1.1]) do |link, _, tls|
      spoken << tls.alpn_protocol
      if tls.alpn_protocol == "h2"
        http2 = Http2Server.new(tls)
        http2.answer(http2.request.first, "ok")
        next http2.rest
      end
      accept = [Digest::SHA1.digest(link.head["sec-websocket-key"] + WebSocket::GUID)].pack("m0")
      link.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: #{accept}\r\n\r\n", [0x81, 5].pack("CC"), "first")
      _, length = link.io.read(2).unpack("CC")
      mask, data = link.io.read(4).bytes, link.io.read(length & 127)
      link.write([0x81, data.bytesize].pack("CC"), data.bytes.each_with_index.map { |byte, i| byte ^ mask[i & 3] }.pack("C*"))
      link.io.read
    end
    trusting(server)
    assert_equal "ok", get.body
    WebSocket.open("ws://127.0.0.1:#{@server.port}/cable") do |socket|
      assert_equal "first", socket.read
      socket.write("hello")
      assert_equal "hello", socket.read
    end
    assert_equal %w[h2 http/1.1], [take(spoken), take(spoken)]
  end

  # --- HTTP/2

  def test_requests_share_one_connection_of_http2
    seen = Queue.new
    server = http2(authority) do |http2, _|
      # None is answered before all are there.
      asked = Array.new(10) { http2.request.tap { |_, fields, body| seen << [fields, body] } }
      asked.each { |stream, fields, _| http2.answer(stream, fields[":path"], "x-own": "1") }
      http2.rest
    end
    trusting(server)
    paths = Array.new(10) { |index| "/#{index}?q=%C3%BC" }
    answers = paths.map do |path|
      Thread.new { wire("POST #{path} HTTP/1.1\r\nHost: shop.test:8080\r\nConnection: X-Hop\r\nX-Hop: 1\r\nContent-Length: 2\r\n\r\nhi") }
    end.map(&:value)
    assert_equal paths, answers.map(&:body)
    assert_equal ["1"], answers.map { |answer| answer["x-own"] }.uniq
    assert_equal 1, server.connections
    fields, body = take(seen)
    assert_equal ["shop.test:8080", "https", "POST", "2", "hi", "127.0.0.1"],
      [*fields.values_at(":authority", ":scheme", ":method", "content-length"), body, fields["x-forwarded-for"]]
    assert_empty fields.keys & %w[host connection x-hop transfer-encoding keep-alive upgrade]
  end

  def test_what_an_upstream_of_http2_has_not_looked_at_is_sent_again
    refuse = lambda do |http2, stream|
      http2.refuse(stream)
      http2.answer(http2.request.first, "second")
    end
    { refused: [1, refuse], gone: [2, ->(http2, _) { http2.go_away(0) }] }.each do |name, (connections, refusing)|
      server = http2(authority) do |http2, number|
        stream, = http2.request
        number == 1 ? refusing.call(http2, stream) : http2.answer(stream, "second")
        http2.rest
      end
      trusting(server)
      answer = wire("POST / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 4\r\n\r\nonce")
      assert_equal [200, "second"], [answer.status, answer.body], name
      assert_equal connections, server.connections, name
    end
  end

  # It closes the connection when it has the second request.
  def test_a_kept_connection_of_http2_that_was_closed
    stale = lambda do
      http2(authority) do |http2, number|
        http2.answer(http2.request.first, "ok")
        stream, = http2.request
        http2.answer(stream, "ok") if stream && number > 1
      end
    end
    trusting(server = stale.call)
    2.times { assert_equal "ok", get.body }
    assert_equal 2, server.connections
    trusting(server = stale.call)
    assert_equal "ok", get.body
    assert_equal 502, wire("POST / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 1\r\n\r\nx").status
    assert_equal 1, server.connections
  end

  def test_bodies_stream_over_http2_both_ways
    pieces, going_on = Queue.new, Queue.new
    server = http2(authority) do |http2, _|
      stream, fields, body = http2.head
      http2.read_until { body == "first" }
      pieces << [fields["content-length"], body.dup]
      http2.read_until { body == "firstsecond" }
      pieces << body.dup
      stream.headers({ ":status" => "200" }, end_stream: false)
      stream.data("one", end_stream: false)
      going_on.pop
      stream.data("two")
      http2.rest
    end
    trusting(server, toml: "buffer_requests = false\n")
    @server.connect do |socket|
      socket.write("POST / HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
      assert_equal [nil, "first"], take(pieces)
      socket.write("6\r\nsecond\r\n0\r\n\r\n")
      assert_equal "firstsecond", take(pieces)
      read = +""
      Timeout.timeout(10) { read << socket.readpartial(1000) until read.include?("one") }
      refute_includes read, "two"
      going_on << true
      Timeout.timeout(10) { read << socket.readpartial(1000) until read.end_with?("0\r\n\r\n") }
      assert_includes read, "two"
    end
  end

  def test_a_stream_of_http2_that_breaks_or_does_not_answer
    server = http2(authority) do |http2, _|
      while (stream, fields = http2.request)
        case fields[":path"]
        when "/broken" then stream.close(:internal_error)
        when "/ok" then http2.answer(stream, "ok")
        end
      end
    end
    trusting(server, toml: "app_hard_timeout = \"2s\"\n")
    assert_equal "ok", get("/ok").body
    assert_equal 502, get("/broken", "Authorization: Bearer s3cret\r\n").status
    @server.wait_for(%r{"GET /broken HTTP/1.1" 502 .*note="upstream https://localhost:\d+: no response: })
    assert_equal 504, get("/silent").status
    @server.wait_for(/504 .*no answer within 2s \(app_hard_timeout\)/)
    assert_equal "ok", get("/ok").body
    assert_equal 1, server.connections
    refute_match(/s3cret/, @server.output)
  end
end
