# HTTP/2 over TLS and with prior knowledge: requests, WebSocket by extended CONNECT, limits against hostile clients.
require_relative "../support/scenario"
require_relative "../support/certificates"
require_relative "../support/http2_client"
require "open3"

class Http2Test < Minitest::Test
  include Scenario

  ECHO = <<~'RUBY'.freeze
    run lambda { |env|
      case env["PATH_INFO"]
      when "/env"
        names = %w[REQUEST_METHOD SERVER_PROTOCOL rack.url_scheme HTTP_HOST SERVER_NAME SERVER_PORT HTTP_COOKIE CONTENT_LENGTH QUERY_STRING]
        [200, { "content-type" => "text/plain" }, [names.map { |name| env[name].to_s }.join("|") + "|hijack=#{!!env["rack.hijack?"]}"]]
      when "/echo" then [200, {}, [env["rack.input"].read]]
      when "/large" then [200, {}, ["x" * 3_000_000]]
      when "/switch" then [101, { "upgrade" => "nothing" }, []]
      when "/connection" then [200, { "connection" => "close", "keep-alive" => "x", "transfer-encoding" => "identity" }, ["fine"]]
      when "/wait" then File.read("barrier"); [200, {}, ["waited"]]
      when "/hijack"
        env["rack.hijack"] ? [500, {}, []] : [200, {}, ["no hijack"]]
      else [404, {}, ["none"]]
      end
    }
  RUBY

  SOCKET = <<~'RUBY'.freeze
    require "digest"
    run lambda { |env|
      return [403, {}, ["no"]] if env["PATH_INFO"] == "/refused"
      accept = [Digest::SHA1.digest(env["HTTP_SEC_WEBSOCKET_KEY"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")].pack("m0")
      facts = %w[REQUEST_METHOD HTTP_UPGRADE HTTP_CONNECTION HTTP_SEC_WEBSOCKET_VERSION SERVER_PROTOCOL].map { |name| env[name] }.join("|")
      headers = { "upgrade" => "websocket", "connection" => "Upgrade", "sec-websocket-accept" => accept }
      talk = lambda { |io|
        io.write(facts)
        while (bytes = (io.readpartial(100) rescue nil))
          io.write(bytes.upcase)
        end
        io.close
      }
      if env["PATH_INFO"] == "/full"
        io = env["rack.hijack"].call
        io.write("HTTP/1.1 101 Switching Protocols\r\n" + headers.map { |pair| pair.join(": ") + "\r\n" }.join + "\r\n")
        Thread.new { talk.call(io) }
        [-1, {}, []]
      else
        [101, headers.merge("rack.hijack" => talk), []]
      end
    }
  RUBY

  def start(config = ECHO, toml = "")
    dir = app("config.ru" => config, "paceline.toml" => toml, "public/file.txt" => "a file\n")
    [dir, serve(dir, "-t", "5")]
  end

  def client(server)
    (@clients ||= []) << Http2Client.new(server.connect)
    @clients.last
  end

  def teardown
    super
    Array(@clients).each(&:close)
  end

  def curl(*arguments)
    out, status = Open3.capture2("curl", "-sS", "--max-time", "20", *arguments)
    assert status.success?, "curl #{arguments.join(" ")}: #{status}"
    out
  end

  def test_with_prior_knowledge
    _, server = start
    base = "http://127.0.0.1:#{server.port}"

    env = curl("--http2-prior-knowledge", "#{base}/env?a=b", "-H", "Host: shop.test", "-d", "abc")
    assert_equal "POST|HTTP/2|http|shop.test|shop.test|80||3|a=b|hijack=false", env
    assert_equal "2 404", curl("--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", "#{base}/none")
    assert_equal "a file\n", curl("--http2-prior-knowledge", "#{base}/file.txt")
    assert_equal 3_000_000, curl("--http2-prior-knowledge", "#{base}/large").bytesize
    assert_equal "no hijack", curl("--http2-prior-knowledge", "#{base}/hijack")
    assert_equal "fine", curl("--http2-prior-knowledge", "#{base}/connection")
    assert_equal "1.1 404", curl("--http1.1", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", "#{base}/none")
    server.wait_for(/"GET \/none HTTP\/2.0" 404 /)
  end

  def test_over_tls_by_alpn
    dir = app("config.ru" => ECHO)
    Authority.new.write(dir, "shop", "shop.test")
    server = serve(dir, "-b", "ssl://127.0.0.1:0?cert=shop.pem&key=shop.key", port: false)
    server.wait_for(/Listening on https:\/\/\S+:(\d+)/) { |match| server.port = Integer(match[1]) }
    url = ["-k", "--resolve", "shop.test:#{server.port}:127.0.0.1", "https://shop.test:#{server.port}"]

    ask = ->(path, *flags) { curl(*flags, *url[0..2], url[3] + path) }
    assert_equal "GET|HTTP/2|https|shop.test:#{server.port}|shop.test|#{server.port}||||hijack=false", ask.("/env", "--http2")
    assert_equal "GET|HTTP/1.1|https|shop.test:#{server.port}|shop.test|#{server.port}||||hijack=true", ask.("/env", "--http1.1")
    File.write(File.join(dir, "upload"), "y" * 3_000_000)
    assert_equal 3_000_000, ask.("/echo", "--http2", "--data-binary", "@#{dir}/upload").count("y")
  end

  def test_http2_can_be_turned_off
    _, server = start(ECHO, "http2 = false")

    answer = server.exchange(Http2Client::PREFACE)

    assert_match(/\A(HTTP\/1.1 \d+ |\z)/, answer)
    assert_equal "404", server.get("/none").code
  end

  def test_cookies_are_one_header_and_trailers_do_no_harm
    _, server = start
    http2 = client(server)

    stream = http2.request({ "cookie" => ["a=1", "b=2"], "trailer" => "x-sum" }, path: "/env", method: "POST", end_stream: false)
    http2.data(stream, "abcd")
    http2.frame(Http2Client::HEADERS, 5, stream, http2.encode("x-sum" => "1", "host" => "evil.test"))
    status, body = http2.response(stream)

    assert_equal [200, "POST|HTTP/2|http|shop.test|shop.test|80|a=1; b=2|4||hijack=false"], [status, body]
  end

  def test_many_streams_at_once
    dir, server = start
    gate = barrier(dir)
    http2 = client(server)

    waiting = http2.request({}, path: "/wait")
    others = Array.new(50) { http2.request({}, path: "/env") }
    done = {}
    until done.size == 50
      one = http2.read
      done[one.stream] = true if one.flags & 1 == 1
    end
    assert_equal others, done.keys.sort
    gate.open
    assert_equal [200, "waited"], http2.response(waiting)
  end

  def test_what_no_request_may_be
    _, server = start
    http2 = client(server)

    assert_equal 400, http2.response(http2.request({ "host" => "other.test" })).first
    assert_equal 400, http2.response(http2.request({}, authority: nil)).first
    assert_equal 501, http2.response(http2.request({}, method: "CONNECT", scheme: nil, path: nil, authority: "a:1")).first
    assert_equal 501, http2.response(http2.request({ ":protocol" => "connect-udp" }, method: "CONNECT")).first
    assert_equal 500, http2.response(http2.request({}, path: "/switch")).first
    assert_equal [:reset, 1], http2.response(http2.request({ "connection" => "close" }))
    assert_equal [:reset, 1], http2.response(http2.request({ "transfer-encoding" => "chunked" }))
    assert_equal [200, "no hijack"], http2.response(http2.request({}, path: "/hijack"))
  end

  def test_web_socket_by_extended_connect
    _, server = start(SOCKET)
    http2 = client(server)
    assert_equal 1, http2.settings[Http2Client::ENABLE_CONNECT_PROTOCOL]

    %w[/ /full].each do |path|
      stream = http2.request({ ":protocol" => "websocket", "sec-websocket-version" => "13" }, method: "CONNECT", path: path, end_stream: false)
      assert_equal 200, http2.head(stream), path
      said = +""
      said << http2.read.payload until said.include?("HTTP/2")
      assert_equal "GET|websocket|Upgrade|13|HTTP/2", said
      http2.data(stream, "there and ")
      http2.data(stream, "back", end_stream: true)
      said = +""
      loop do
        one = http2.read
        said << one.payload if one.type == Http2Client::DATA
        break if one.flags & 1 == 1
      end
      assert_equal "THERE AND BACK", said
    end
    refused = http2.request({ ":protocol" => "websocket", "sec-websocket-version" => "13" }, method: "CONNECT", path: "/refused", end_stream: false)
    assert_equal 403, http2.head(refused)
  end

  def test_rapid_resets_close_the_connection
    dir, server = start(ECHO, "http2_resets = 20")
    barrier(dir)
    http2 = client(server)

    begin
      200.times { http2.reset(http2.request({}, path: "/env")) }
    rescue Errno::EPIPE, Errno::ECONNRESET
      nil
    end

    http2.ending
    assert_equal "404", server.get("/none").code
  end

  def test_targets_and_header_fields_have_the_limits_of_http1
    _, server = start(ECHO, "max_uri = 300\nmax_headers = 12\nmax_header_bytes = 2048")
    http2 = client(server)

    assert_equal 414, http2.response(http2.request(path: "/#{"a" * 300}")).first
    assert_equal 431, http2.response(http2.request((1..13).to_h { |n| ["x-#{n}", "1"] })).first
    assert_equal 431, http2.response(http2.request({ "x-long" => "y" * 2100 })).first
    assert_equal 404, http2.response(http2.request).first
  end

  def test_a_header_list_has_its_limit
    _, server = start(ECHO, 'http2_header_list = "4KB"')
    http2 = client(server)

    assert_equal 4096, http2.settings[6]
    status, = http2.response(http2.request({ "x-long" => "y" * 8000 }))
    assert_includes [431, :reset], status
    assert_equal 404, http2.response(http2.request).first

    endless = client(server)
    begin
      endless.frame(Http2Client::HEADERS, 1, 1, endless.encode(":method" => "GET"))
      500.times { endless.frame(Http2Client::CONTINUATION, 0, 1, endless.encode("x-long" => "y" * 8000)) }
    rescue Errno::EPIPE, Errno::ECONNRESET
      nil
    end
    assert_operator endless.ending.to_i, :>, 0
  end

  def test_an_idle_connection_is_closed_and_a_busy_one_is_not
    dir, server = start(ECHO, 'http2_idle_timeout = "300ms"')
    gate = barrier(dir)
    idle, busy = client(server), client(server)
    stream = busy.request({}, path: "/wait")

    assert_equal 0, idle.ending
    gate.open
    assert_equal [200, "waited"], busy.response(stream)
  end

  def test_a_client_that_answers_no_ping_is_let_go
    _, server = start(ECHO, "http2_ping_interval = \"1s\"\nhttp2_ping_timeout = \"200ms\"\nhttp2_idle_timeout = \"60s\"")

    server.connect do |socket|
      socket.write(Http2Client::PREFACE + "\0\0\0\4\0\0\0\0\0".b)
      refute_empty socket.read
    end
  end

  def test_stopping_says_goodbye_and_finishes_what_is_in_hand
    dir, server = start
    gate = barrier(dir)
    idle, busy = client(server), client(server)
    stream = busy.request({}, path: "/wait")
    assert_equal 404, idle.response(idle.request).first

    server.signal(:TERM)
    server.wait_for(/Stopping/)
    assert_equal 0, idle.ending
    gate.open
    assert_equal [200, "waited"], busy.response(stream)
    assert_equal 0, server.wait.exitstatus
  end

  def test_nothing_but_http2_on_h2c
    dir = app("config.ru" => ECHO)
    server = serve(dir, "-b", "h2c://127.0.0.1:0")

    assert_equal "404", curl("--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_code}", "http://127.0.0.1:#{server.port}/")
    answer = begin
      server.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    rescue Errno::ECONNRESET
      "closed"
    end
    refute_match(/HTTP\/1/, answer)
  end

  def test_what_http_1_refuses_in_a_request_is_refused_here
    dir = app("a/config.ru" => "run ->(env) { [200, {}, [env['HTTP_HOST'].inspect]] }", "paceline.toml" => "[[site]]\nroot = \"a\"\nhost = [\"*.example.org\", \"shop.test\"]\n")
    connection = client(serve(dir))
    status = ->(headers = {}, **pseudo) { connection.response(connection.request(headers, **pseudo)).first }
    assert_equal 200, status.call
    assert_equal 200, status.call({ "host" => "x.example.org" }, authority: nil)
    assert_equal 400, status.call({ "host" => "evil.com/x.example.org" }, authority: nil)
    assert_equal 400, status.call({ "host" => %w[x.example.org y.example.org] }, authority: nil)
    assert_equal 400, status.call({ "host" => "x.example.org:abc" }, authority: nil)
    assert_equal 400, status.call({ "host" => "other.test" })
    assert_equal 400, status.call(path: "*")
    assert_equal 501, status.call(method: "X" * 40)
    ["/\"", "/<b>", "/?\""].each { |path| assert_includes [400, :reset], status.call(path: path), path }
    assert_equal 200, status.call(path: "/\u00e9")
    assert_equal 200, status.call
  end

  # The library would cut it off: rules of a program on the way may be for the whole.
  def test_a_fragment_in_a_path_is_refused_however_it_is_written
    connection = client(serve(app("config.ru" => "run ->(env) { [200, {}, [env['PATH_INFO'].inspect]] }")))
    status = ->(path) { connection.response(connection.request({}, path: path)).first }
    ["/#", "/a#b", "/a?b#c", "#", "#/a"].each { |path| assert_includes [400, :reset], status.call(path), path }
    # :method GET, :scheme http, :authority x; then a path: by its name in the table, in Huffman's code, and by a name that it has got into the table itself.
    rest = "\x82\x86\x41\x01x".b
    raw = lambda do |fields|
      stream = connection.next_stream
      connection.frame(Http2Client::HEADERS, Http2Client::END_HEADERS | Http2Client::END_STREAM, stream, rest + fields)
      connection.response(stream)
    end
    assert_equal [200, "\"/a\""], raw.call("\x04\x02/a".b)
    assert_includes [400, :reset], raw.call("\x04\x04/a#b".b).first
    assert_equal [200, "\"/\""], raw.call("\x04\x81\x63".b)
    assert_includes [400, :reset], raw.call("\x04\x83\x63\xfe\xbf".b).first, "/# in Huffman's code"
    assert_equal [200, "\"/a\""], raw.call("\x40\x05:path\x02/a".b)
    assert_includes [400, :reset], raw.call("\x0f\x30\x04/a#b".b).first, "the second of the table"
    assert_equal 200, status.call("/a")
  end
end
