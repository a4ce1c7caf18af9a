# A site that is answered by another HTTP server: every byte on either side, and what goes wrong.
require_relative "../support/proxied_site"

class UpstreamTest < Minitest::Test
  include ProxiedSite

  def test_a_request_to_the_byte
    front(scripted(OK))
    fields = "Host: shop.test:8080\r\nX-Request-Id: id-1\r\nConnection: close, X-Own\r\nX-Own: 1\r\nKeep-Alive: 1\r\nTE: trailers\r\n" \
      "X-Forwarded-Proto: https, http\r\nX_Forwarded_For: 6.6.6.6\r\nProxy: http://evil\r\nCookie: a=b\r\nAccept: x\r\nAccept: y\r\n"
    assert_equal "ok", wire("GET /a%20b//c?d=%C3%BC&e= HTTP/1.1\r\n#{fields}\r\n").body
    head = take(@heads)
    assert_match(/\At=\d+\.\d{6}\z/, head["x-request-start"])
    lines = head.bytes.lines("\r\n").reject { |line| line.start_with?("x-request-start") }
    assert_equal "GET /a%20b//c?d=%C3%BC&e= HTTP/1.1\r\n", lines.shift
    expected = ["host: shop.test:8080", "x-request-id: id-1", "x-forwarded-proto: http", "cookie: a=b", "accept: x", "accept: y",
      "via: 1.1 paceline", "x-forwarded-for: 127.0.0.1", "x-forwarded-host: shop.test:8080", "x-forwarded-port: 8080",
      "surrogate-capability: paceline=\"Surrogate/1.0 ESI/1.0\"", ""]
    assert_equal expected.sort, lines.map(&:chomp).sort
  end

  def test_a_stranger_does_not_speak_for_itself_and_a_trusted_proxy_does
    front(scripted(OK, OK), arguments: ["--trusted-proxies", "none"])
    get("/", "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.test\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\n")
    head = take(@heads)
    assert_equal [["127.0.0.1"], ["http"], ["shop.test"], ["80"], [], []],
      %w[x-forwarded-for x-forwarded-proto x-forwarded-host x-forwarded-port forwarded x-real-ip].map { |name| head.all(name) }
    front(scripted(OK))
    get("/", "X-Forwarded-For: 192.0.2.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: public.test\r\n")
    head = take(@heads)
    assert_equal [["192.0.2.9, 127.0.0.1"], ["https"], ["public.test"], ["443"], ["shop.test"]],
      %w[x-forwarded-for x-forwarded-proto x-forwarded-host x-forwarded-port host].map { |name| head.all(name) }
  end

  def test_targets_and_versions
    front(scripted(OK, OK, OK, OK, OK))
    wire("GET http://abs.test:81/x?y HTTP/1.1\r\nHost: abs.test:81\r\n\r\n")
    head = take(@heads)
    assert_equal ["GET /x?y HTTP/1.1", "abs.test:81"], [head.line, head["host"]]
    wire("OPTIONS * HTTP/1.1\r\nHost: shop.test\r\nMax-Forwards: 3\r\n\r\n")
    head = take(@heads)
    assert_equal ["OPTIONS * HTTP/1.1", "2"], [head.line, head["max-forwards"]]
    assert_equal 200, wire("OPTIONS * HTTP/1.1\r\nHost: shop.test\r\nMax-Forwards: 0\r\n\r\n").status
    wire("GET / HTTP/1.0\r\n\r\n")
    head = take(@heads)
    assert_equal ["GET / HTTP/1.1", @origins.last.url.delete_prefix("http://"), "1.0 paceline"], [head.line, head["host"], head["via"]]
    wire("GET /%E2%82%AC?%C3%BC HTTP/1.1\r\nHost: shop.test\r\n\r\n")
    assert_equal "GET /%E2%82%AC?%C3%BC HTTP/1.1", take(@heads).line
    wire("GET /\u20ac?\xFC HTTP/1.1\r\nHost: shop.test\r\n\r\n".b)
    assert_equal "GET /%E2%82%AC?%FC HTTP/1.1", take(@heads).line
  end

  def test_an_answer_to_the_byte
    front(scripted("HTTP/1.1 299 Quite Fine\r\nServer: origin\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: keep-alive, X-Hop\r\n" \
      "X-Hop: 1\r\nKeep-Alive: timeout=5\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Sendfile: /etc/passwd\r\nContent-Length: 3\r\n\r\nabc",
      OK.sub("200 OK", "404 Not Found")))
    @server.connect do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n" * 2)
      answer = Wire.response(socket)
      assert_equal "HTTP/1.1 299 Quite Fine", answer.line
      assert_equal [["server", "origin"], ["date", "Sun, 06 Nov 1994 08:49:37 GMT"], ["set-cookie", "a=1"], ["set-cookie", "b=2"],
        ["x-sendfile", "/etc/passwd"], ["content-length", "3"], ["cache-status", "paceline; fwd=uri-miss; detail=no-freshness"]].sort, answer.fields.map { |name, value| [name.downcase, value] }.sort
      assert_equal "abc", answer.body
      answer = Wire.response(socket)
      assert_equal [404, "ok"], [answer.status, answer.body]
      assert answer["date"]
    end
    assert_equal 1, @origins.last.connections
  end

  def test_answers_without_a_body
    front(scripted("HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: \"x\"\r\n\r\n",
      "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", OK))
    @server.connect do |socket|
      ask = ->(method) { socket.write("#{method} / HTTP/1.1\r\nHost: shop.test\r\n\r\n") && Wire.response(socket, to: method) }
      assert_equal [200, "12345"], ask["HEAD"].then { |answer| [answer.status, answer["content-length"]] }
      # hyper writes no length there, which is as good (RFC 9110 section 8.6).
      assert_equal [304, nil, "\"x\""], ask["GET"].then { |answer| [answer.status, answer["content-length"], answer["etag"]] }
      assert_equal [204, nil], ask["GET"].then { |answer| [answer.status, answer["content-length"]] }
      assert_equal [200, nil], ask["HEAD"].then { |answer| [answer.status, answer["content-length"]] }
      assert_equal "ok", ask["GET"].body
    end
    assert_equal 1, @origins.last.connections
  end

  def echo
    origin do |link, _|
      while (head = link.head)
        link.answer("#{head["content-length"].inspect} #{head["transfer-encoding"].inspect} #{head["expect"].inspect} #{link.body(head).hash}")
      end
    end
  end

  def test_request_bodies_of_every_kind
    large = Random.new(1).bytes(300_000)
    chunked = large.scan(/.{1,9999}/mn).map { |piece| "#{piece.bytesize.to_s(16)}\r\n#{piece}\r\n" }.join + "0\r\nX-Trailer: 1\r\n\r\n"
    [["", "\"300000\" nil nil", "\"300000\" nil nil"], ["buffer_requests = false\n", "\"300000\" nil nil", "nil \"chunked\" nil"]].each do |toml, known, unknown|
      front(echo, toml: toml)
      post = ->(fields, body) { wire("POST / HTTP/1.1\r\nHost: shop.test\r\n#{fields}\r\n#{body}").body }
      assert_equal "nil nil nil #{"".b.hash}", get.body
      assert_equal "\"0\" nil nil #{"".b.hash}", post["", ""]
      assert_equal "\"0\" nil nil #{"".b.hash}", post["Content-Length: 0\r\n", ""]
      assert_equal "\"5\" nil nil #{"hello".b.hash}", post["Content-Length: 5\r\n", "hello"]
      assert_equal "#{known} #{large.hash}", post["Content-Length: 300000\r\n", large]
      assert_equal "#{unknown} #{large.hash}", post["Transfer-Encoding: chunked\r\n", chunked]
      assert_equal 1, @origins.last.connections
    end
  end

  def test_expectations_are_met_here
    front(echo)
    @server.connect do |socket|
      socket.write("POST / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
      assert_equal 100, Wire.response(socket).status
      socket.write("hello")
      assert_match(/\A"5" nil nil /, Wire.response(socket).body)
    end
  end

  def test_a_body_that_the_client_breaks_off_or_that_is_too_large
    gone = Queue.new
    leaving = origin do |link, _|
      head = link.head
      body = begin link.io.readpartial(10) + link.io.read.to_s rescue SystemCallError end
      gone << [head.line, body.to_s.bytesize]
    end
    front(leaving, toml: "buffer_requests = false\nmax_body = 100000\n")
    @server.connect do |socket|
      socket.write("POST / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 90000\r\n\r\n#{"x" * 1000}")
      socket.close_write
      assert_includes [400, nil], (Wire.response(socket).status rescue nil)
    end
    assert_operator take(gone).last, :<, 90_000
    assert_equal 413, wire("POST / HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n1adb0\r\n#{"x" * 110_000}\r\n").status
    assert_operator take(gone).last, :<, 110_100
  end

  def test_an_answer_before_the_body_has_been_read
    ["", "buffer_requests = false\n"].each do |toml|
      front(refusing = origin { |link, _|
        link.head
        link.answer("too large", status: "413 Content Too Large", fields: ["Connection: close"])
      }, toml: toml)
      @server.connect do |socket|
        writing = Thread.new do
          socket.write("POST / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 20000000\r\n\r\n")
          20.times { socket.write("x" * 1_000_000) }
        rescue SystemCallError
          nil
        end
        answer = Wire.response(socket)
        assert_equal [413, "too large"], [answer.status, answer.body], toml
        writing.kill
      end
      assert_equal 1, refusing.connections
    end
  end

  def test_a_spooled_body_is_sent_again
    seen = Queue.new
    large = Random.new(2).bytes(300_000)
    front(origin { |link, number|
      link.answer if link.head
      head = link.head or next
      seen << [number, link.body(head) == large]
      link.answer unless number == 1
    })
    assert_equal "ok", get.body
    put = Thread.new { wire("PUT / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 300000\r\n\r\n#{large}").body }
    assert_equal [1, true], take(seen)
    assert_equal "ok", put.value
    assert_equal 2, @origins.last.connections
  end

  def test_the_first_byte_comes_before_the_last
    go = Queue.new
    front(origin { |link, number|
      link.head
      link.write(number == 1 ? "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n" : "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\none")
      go.pop
      link.write(number == 1 ? "3\r\ntwo\r\n0\r\nX-Trailer: 1\r\n\r\n" : "two")
      link.head
    })
    @server.connect do |one|
      @server.connect do |two|
        [one, two].each do |socket|
          socket.write("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
          head = Wire.head(socket)
          assert_equal "one", head["content-length"] ? Wire.exactly(socket, 3) : Wire.chunk(socket)
        end
        2.times { go << :go }
        assert_equal ["two", nil], [Wire.chunk(one), Wire.chunk(one)]
        assert_equal "two", Wire.exactly(two, 3)
      end
    end
  end

  def test_an_answer_until_the_close
    front(origin { |link, _| link.head && link.write("HTTP/1.0 200 OK\r\n\r\nall of it") })
    assert_equal "all of it", get.body
  end

  def test_a_slow_client_makes_the_upstream_wait
    stuck = Queue.new
    front(origin { |link, _|
      link.head
      link.write("HTTP/1.1 200 OK\r\nContent-Length: #{256 << 20}\r\n\r\n")
      left, piece = 256 << 20, "x" * (1 << 20)
      # All buffers are full when it can write no more for a while.
      while left > 0 && IO.select(nil, [link.io], nil, 0.5)
        left -= link.io.write_nonblock(piece.byteslice(0, left), exception: false).then { |count| count.is_a?(Integer) ? count : 0 }
      end
      stuck << left
      link.write("x" * left)
    })
    @server.connect do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
      Wire.head(socket)
      assert_operator take(stuck), :>, 192 << 20
      assert_operator @server.private_memory, :<, 64 << 20
      assert_equal 256 << 20, Wire.exactly(socket, 256 << 20).bytesize
    end
  end

  def test_an_answer_that_is_cut_off_is_never_complete
    [["Content-Length: 10", "half", :close], ["Content-Length: 10", "half", :reset], ["Transfer-Encoding: chunked", "4\r\nhalf\r\n", :close],
     ["Transfer-Encoding: chunked", "4\r\nhalf\r\nzz\r\n", :hold]].each do |field, bytes, ending|
      seen = Queue.new
      front(origin { |link, _|
        link.head
        link.write("HTTP/1.1 200 OK\r\n#{field}\r\n\r\n#{bytes}")
        seen.pop
        link.reset if ending == :reset
        link.head if ending == :hold
      })
      @server.connect do |socket|
        socket.write("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
        head = Wire.head(socket)
        assert_equal "half", head["content-length"] ? Wire.exactly(socket, 4) : Wire.chunk(socket), field
        seen << :go
        rest = begin socket.read; rescue Errno::ECONNRESET then "" end
        assert_equal "", rest, "#{field} #{ending}"
      end
      @server.wait_for(/" 200 4 .* cut=1/)
    end
  end

  def test_after_interim_responses_the_final_one_is_kept
    front(scripted("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n" + OK.sub("Content", "Cache-Control: max-age=60\r\nContent")))
    @server.connect do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
      assert_equal "HTTP/1.1 103 Early Hints", Wire.response(socket).line
      assert_equal ["ok", "paceline; fwd=uri-miss; stored"], Wire.response(socket).then { |answer| [answer.body, answer["cache-status"]] }
      socket.write("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
      answer = Wire.response(socket)
      assert_equal [200, "ok"], [answer.status, answer.body]
      assert_match(/\Apaceline; hit; ttl=/, answer["cache-status"])
    end
  end

  def test_interim_responses_reach_the_client
    go = Queue.new
    front(origin { |link, _|
      while link.head
        link.write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nLink: </b.js>\r\nConnection: x\r\nX: 1\r\n\r\n")
        go.pop
        link.write("HTTP/1.1 199 Whatever\r\nA: b\r\n\r\n")
        link.answer
      end
    })
    @server.connect do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
      assert_equal ["HTTP/1.1 102 Processing", []], Wire.response(socket).then { |answer| [answer.line, answer.fields] }
      assert_equal ["HTTP/1.1 103 Early Hints", [["link", "</a.css>"], ["link", "</b.js>"]]], Wire.response(socket).then { |answer| [answer.line, answer.fields] }
      go << :go
      assert_equal ["HTTP/1.1 199 ", [["a", "b"]]], Wire.response(socket).then { |answer| [answer.line, answer.fields] }
      assert_equal "ok", Wire.response(socket).body
      go << :go
      socket.write("GET / HTTP/1.0\r\nHost: shop.test\r\n\r\n")
      assert_equal "ok", Wire.response(socket).body
    end
  end

  def test_what_is_no_response
    ["HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
     "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 200 OK\r\nX: #{"x" * 300_000}\r\n\r\n",
     "HTTP/1.1 200 OK\r\nfolded: a\r\n b\r\n\r\n"].each do |bytes|
      front(scripted(bytes))
      answer = get
      assert_equal 502, answer.status, bytes[0, 80]
      assert_match(/gave no proper answer/, answer.body)
      @server.wait_for(/note="upstream #{Regexp.escape(@origins.last.url)}: no response: /)
    end
  end

  def test_an_upstream_that_is_not_there
    port = TCPServer.open("127.0.0.1", 0) { |socket| socket.addr[1] }
    front("http://127.0.0.1:#{port}", files: { "public/502.html" => "<p>back soon" })
    answer = get("/", "Accept: text/html\r\n")
    assert_equal [502, "<p>back soon"], [answer.status, answer.body]
    @server.wait_for(%r{502 .*note="upstream http://127\.0\.0\.1:#{port}: no connection: Connection refused})
    # A name server that loses a question is asked again after five seconds.
    front("http://no-such-host.invalid:81", toml: "upstream_connect_timeout = \"25s\"\n")
    assert_equal 502, get.status
    @server.wait_for(%r{note="upstream http://no-such-host\.invalid:81: no connection: })
  end

  def test_time_is_bounded
    left = Queue.new
    front(origin { |link, _|
      link.head
      left << (link.head || :left)
    }, toml: "app_hard_timeout = \"200ms\"\n")
    assert_equal 504, get.status
    assert_equal :left, take(left)
    @server.wait_for(/504 .*note="upstream .*: no answer within 200ms \(app_hard_timeout\)/)

    # Nobody accepts, and the backlog is full: the kernel answers nothing.
    full = Socket.new(:INET, :STREAM).tap { |socket| socket.bind(Addrinfo.tcp("127.0.0.1", 0)) && socket.listen(0) }
    waiting = Array.new(8) { Socket.new(:INET, :STREAM).tap { |socket| socket.connect_nonblock(full.local_address, exception: false) } }
    front("http://127.0.0.1:#{full.local_address.ip_port}", toml: "upstream_connect_timeout = \"200ms\"\n")
    assert_equal 504, get.status
    @server.wait_for(/504 .*no connection within 200ms \(upstream_connect_timeout\)/)
  ensure
    [full, *waiting].compact.each(&:close)
  end

  def test_a_client_that_leaves_ends_the_request
    entered, left = Queue.new, Queue.new
    front(origin { |link, _|
      entered << link.head
      left << (link.head || :left)
    })
    @server.connect do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
      take(entered)
    end
    assert_equal :left, take(left)
  end

  def test_unix_sockets_and_ipv6
    dir = app
    front(origin(UNIXServer.new(path = File.join(dir, "app.sock"))) { |link, _| link.answer while link.head }.then { "http://unix:#{path}" })
    assert_equal "ok", get.body
    begin
      six = TCPServer.new("::1", 0)
    rescue SystemCallError
      return
    end
    heads = Queue.new
    front(origin(six) { |link, _| heads << (link.head || break) && link.answer }.then { "http://[::1]:#{six.addr[1]}" })
    assert_equal "ok", wire("GET / HTTP/1.0\r\n\r\n").body
    assert_equal "[::1]:#{six.addr[1]}", take(heads)["host"]
  end

  def test_files_come_first_where_the_site_has_some
    files = { "public/a.txt" => "a file", "public/index.html" => "start" }
    front(scripted(OK), files: files)
    assert_equal "ok", get("/a.txt").body
    front(scripted(OK, OK), files: files, toml: "public = \"public\"\n")
    assert_equal "a file", get("/a.txt").body
    assert_equal "ok", get("/b.txt").body
    assert_equal "ok", wire("POST /a.txt HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 0\r\n\r\n").body
    refute_match(/is ready|preloader/, @server.output)
    assert_empty @server.descendants
  end

  def test_beside_an_application_and_on_the_command_line
    upstream = scripted(OK, OK, OK)
    dir = app("shop/config.ru" => "run ->(env) { [200, {}, ['from Ruby']] }\n",
      "paceline.toml" => "[[site]]\nhost = \"a.test\"\nupstream = \"#{upstream.url}\"\n[[site]]\nroot = \"shop\"\n")
    @server = serve(dir, "-w", "1")
    assert_equal "ok", wire("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").body
    assert_equal "from Ruby", get.body
    assert_equal 0, @server.stop.exitstatus

    @server = serve(app, "--upstream", upstream.url, ready: false)
    assert_equal "ok", get.body
    out = IO.popen([BIN, "check", "--upstream", upstream.url], chdir: app, err: %i[child out], &:read)
    assert_match(/^site    \S+: #{upstream.url}, for every host\nno problems found/, out)
  end

  def test_a_body_that_breaks_in_its_first_piece_is_a_bad_gateway
    head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    front(scripted("#{head}zz\r\nabc\r\n0\r\n\r\n", "#{head}-1\r\n", OK))
    2.times { assert_equal 502, get("/").status }
    assert_equal "ok", get("/").body
  end
end
