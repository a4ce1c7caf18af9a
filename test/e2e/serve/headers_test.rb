# What the app is told of a request, and what clients get of its fields: names, values, connections, versions.
require_relative "../support/rack_routes"
require_relative "../support/scenario"
require_relative "../support/wire"
require "json"

class HeadersTest < Minitest::Test
  include Scenario
  include RackRoutes

  rack_setup <<~'RUBY'
    require "json"
    TEXT = { "content-type" => "text/plain" }.freeze
  RUBY

  # Everywhere else: the environment, as JSON.
  rack do |env|
    plain = env.select { |_, value| [String, Integer, TrueClass, FalseClass, NilClass].any? { |type| type === value } }
    [200, TEXT.dup, [JSON.generate(plain.transform_values { |value| value.is_a?(String) ? value.dup.force_encoding("UTF-8").scrub("?") : value })]]
  end

  def server = @server ||= start

  def ask(path, *fields, version: "1.1", method: "GET")
    server.connect do |socket|
      socket.write(["#{method} #{path} HTTP/#{version}", *fields, "", ""].join("\r\n"))
      Wire.response(socket, to: method)
    end
  end

  def env(path, *fields, **options) = JSON.parse(ask(path, *fields, **options).body)

  def test_the_environment_of_a_request
    told = env("/a%20b/c?x=1&y=%2F", "Host: shop.test:8080", "Accept: */*", "X-Custom-Name: value")
    expected = {
      "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/a%20b/c", "QUERY_STRING" => "x=1&y=%2F",
      "REQUEST_URI" => "/a%20b/c?x=1&y=%2F", "SERVER_NAME" => "shop.test", "SERVER_PORT" => "8080", "SERVER_PROTOCOL" => "HTTP/1.1",
      "REMOTE_ADDR" => "127.0.0.1", "rack.url_scheme" => "http", "HTTP_HOST" => "shop.test:8080", "HTTP_ACCEPT" => "*/*",
      "HTTP_X_CUSTOM_NAME" => "value"
    }
    assert_equal expected, told.slice(*expected.keys)
    refute told.key?("CONTENT_LENGTH")
    refute told.key?("CONTENT_TYPE")
  end

  def test_host_and_protocol_of_old_and_odd_requests
    assert_equal ["HTTP/1.0", "127.0.0.1", server.port.to_s], env("/", version: "1.0").values_at("SERVER_PROTOCOL", "SERVER_NAME", "SERVER_PORT")
    assert_equal ["other.test", "80", "/x"], env("http://other.test/x", "Host: other.test").values_at("SERVER_NAME", "SERVER_PORT", "PATH_INFO")
    assert_equal ["[::1]", "99"], env("/", "Host: [::1]:99").values_at("SERVER_NAME", "SERVER_PORT")
    assert_equal ["OPTIONS", ""], env("/", "Host: test", method: "OPTIONS").values_at("REQUEST_METHOD", "QUERY_STRING")
  end

  def test_fields_that_would_deceive_the_app_are_withheld
    told = env("/", "Host: test", "Proxy: http://evil.test", "X_Forwarded_For: 6.6.6.6", "X-Forwarded-For: 192.0.2.1", "X-Sendfile-Type: X-Sendfile",
      "X-Accel-Mapping: /=/", "X-Request-Start: t=1", "Content_Length: 5")
    assert_equal "192.0.2.1", told["HTTP_X_FORWARDED_FOR"]
    assert_empty %w[HTTP_PROXY HTTP_X_SENDFILE_TYPE HTTP_X_ACCEL_MAPPING HTTP_CONTENT_LENGTH CONTENT_LENGTH] & told.keys
    assert_in_delta Time.now.to_f, Float(told["HTTP_X_REQUEST_START"].delete_prefix("t=")), 60
  end

  def test_fields_given_twice_are_one_list
    told = env("/", "Host: test", "Accept: a", "Accept: b", "Cookie: a=1", "Cookie: b=2")
    assert_equal ["a, b", "a=1; b=2"], told.values_at("HTTP_ACCEPT", "HTTP_COOKIE")
  end

  def test_a_request_id_is_passed_on_when_harmless_and_else_made
    assert_equal "abc-123", env("/", "Host: test", "X-Request-Id: abc-123")["HTTP_X_REQUEST_ID"]
    made = [env("/", "Host: test"), env("/", "Host: test", "X-Request-Id: \"><script>"), env("/", "Host: test", "X-Request-Id: #{"x" * 300}")]
    ids = made.map { |told| told["HTTP_X_REQUEST_ID"] }
    ids.each { |id| assert_match(/\A\h{8}-\h{4}-4\h{3}-\h{4}-\h{12}\z/, id) }
    assert_equal 3, ids.uniq.size
  end

  rack("/joined", bare: true) { [200, TEXT.merge("set-cookie" => "a=1\nb=2", "x-many" => "one\ntwo"), ["ok"]] }
  rack("/array", bare: true) { [200, TEXT.merge("set-cookie" => ["a=1", "b=2"], "x-many" => %w[one two]), ["ok"]] }

  def test_values_joined_by_newlines_or_in_arrays_are_lines_of_their_own
    %w[/joined /array].each do |path|
      answer = ask(path, "Host: test")
      assert_equal [%w[a=1 b=2], %w[one two]], [answer.all("set-cookie"), answer.all("x-many")], path
    end
  end

  rack("/bad_name", bare: true) { [200, TEXT.merge("x bad" => "1"), ["no"]] }
  rack("/bad_value", bare: true) { [200, TEXT.merge("x-bad" => "1\r\nset-cookie: stolen=1"), ["no"]] }
  rack("/nul", bare: true) { [200, TEXT.merge("x-bad" => "1\0"), ["no"]] }

  def test_fields_that_cannot_be_sent_are_an_error_and_the_log_says_which
    { "/bad_name" => /header name "x bad" is not a token/, "/bad_value" => /header x-bad .*stolen/, "/nul" => /header x-bad/ }.each do |path, words|
      answer = ask(path, "Host: test")
      assert_equal [500, nil, nil], [answer.status, answer["set-cookie"], answer["x-bad"]], path
      server.wait_for(/Paceline::InvalidResponse: #{words}/)
    end
  end

  rack("/bytes", bare: true) { [200, TEXT.merge("x-bytes" => "gr\u00fc\u00dfe", "x-empty" => "", "x-rack" => "kept", "rack.private" => "never"), ["ok"]] }
  rack("/number", bare: true) { [200, TEXT.merge("x-number" => 12, "x-nil" => nil), ["ok"]] }

  def test_other_values_go_out_as_they_are
    answer = ask("/bytes", "Host: test")
    assert_equal ["grüße".b, "kept", nil], [answer["x-bytes"].b, answer["x-rack"], answer["rack.private"]]
    assert_equal [["12"], []], ask("/number", "Host: test").then { |number| [number.all("x-number"), number.all("x-nil")] }
  end

  rack("/hop", bare: true) do
    [200, TEXT.merge("connection" => "keep-alive", "keep-alive" => "timeout=5", "upgrade" => "h2c", "transfer-encoding" => "chunked"), ["ok"]]
  end

  def test_fields_of_the_connection_are_the_servers
    answer = ask("/hop", "Host: test")
    assert_equal [nil, nil, nil, nil, "2"], %w[connection keep-alive upgrade transfer-encoding content-length].map { |name| answer[name] }
  end

  rack("/raises") { raise ArgumentError, "<script>" }

  def test_an_app_that_raises_gets_a_page_and_the_log_the_backtrace
    answer = ask("/raises", "Host: test", "Accept: text/html")
    assert_equal [500, "text/html; charset=utf-8"], [answer.status, answer["content-type"]]
    refute_includes answer.body, "<script>"
    assert_includes answer.body, "&lt;script&gt;"
    server.wait_for(/GET \/raises: ArgumentError: <script>/)
    server.wait_for(/"GET \/raises HTTP\/1.1" 500 .* note="raised ArgumentError"/)
  end

  def test_in_production_a_page_tells_nothing_but_an_id
    start("-e", "production")
    answer = ask("/raises", "Host: test", "Accept: text/html", "X-Request-Id: id-77")
    assert_equal 500, answer.status
    assert_includes answer.body, "id-77"
    refute_match(/ArgumentError|config\.ru/, answer.body)
  end

  def test_requests_sent_at_once_are_answered_in_order
    bytes = server.exchange((1..50).map { |i| "GET /?n=#{i} HTTP/1.1\r\nHost: test\r\n#{"Connection: close\r\n" if i == 50}\r\n" }.join)
    assert_equal (1..50).to_a, bytes.scan(/"QUERY_STRING":"n=(\d+)"/).flatten.map(&:to_i)
    assert_equal 50, bytes.scan("HTTP/1.1 200 OK\r\n").size
  end

  def test_connections_are_kept_or_closed_as_the_client_asks
    server.connect do |socket|
      3.times do
        socket.write("GET / HTTP/1.1\r\nHost: test\r\n\r\n")
        assert_nil Wire.response(socket)["connection"]
      end
      socket.write("GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
      assert_equal "close", Wire.response(socket)["connection"]
      assert_equal "", socket.read
    end
    server.connect do |socket|
      socket.write("GET /number HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
      assert_equal ["keep-alive", "ok"], Wire.response(socket).then { |answer| [answer["connection"], answer.body] }
      socket.write("GET / HTTP/1.0\r\n\r\n")
      assert_equal "HTTP/1.0 200 OK", Wire.response(socket).line
      assert_equal "", socket.read
    end
  end

  def test_what_is_no_http_is_refused
    ["nonsense\r\n\r\n", "GET / HTTP/1.1\r\nHost: test\r\nbad field\r\n\r\n", "GET /a b HTTP/1.1\r\nHost: test\r\n\r\n"].each do |bytes|
      assert_match(/\AHTTP\/1\.1 400 Bad Request\r\n/, server.exchange(bytes), bytes)
    end
    assert_match(/\AHTTP\/1\.1 431 /, server.exchange("GET / HTTP/1.1\r\nHost: test\r\nX-Large: #{"x" * 500_000}\r\n\r\n"))
  end

  def test_connect_is_not_for_this_server
    assert_equal 501, ask("other.test:443", "Host: other.test:443", method: "CONNECT").status
  end
end
