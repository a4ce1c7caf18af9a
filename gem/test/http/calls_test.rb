# frozen_string_literal: true

require_relative "support/case"
require "json"

# Paceline::HTTP.get and its like, and `all`, by each way.
class OutboundCallsTest < OutboundTest
  H = Paceline::HTTP

  def setup
    super
    @server = server
  end

  def test_get
    response = H.get(@server.url("/plain"))
    assert_equal [200, "OK", "plain", Encoding::UTF_8, true, nil], [response.status, response.reason, response.body, response.body.encoding, response.ok?, response.error]
    assert_equal "Value", response["x-mixed-case"]
    assert_equal "text/plain; charset=utf-8", response.headers["content-type"]
    assert_equal Encoding::BINARY, H.get(@server.url("/binary")).body.encoding
    assert_equal "packed " * 50, H.get(@server.url("/gzip")).body
    assert_nil H.get(@server.url("/no-content")).body
    assert_equal 1, @server.connections
  end

  def test_a_status_is_no_error
    response = H.get(@server.url("/error"))
    assert_equal [503, false], [response.status, response.ok?]
    assert_raises(Net::HTTPFatalError) { response.value }
    assert_equal 302, H.get(@server.url("/redirect")).status
  end

  def test_what_is_sent
    echo = ->(method, **options) { H.public_send(method, @server.url("/echo?x=1"), **options).body.lines(chomp: true) }
    assert_equal "GET /echo?x=1&a=1&b=%C3%BC HTTP/1.1", echo.call(:get, params: { a: 1, b: "ü" })[0]
    assert_includes echo.call(:get, headers: { "X-One" => "1", accept: "text/css" }), "Accept: text/css"
    json = echo.call(:post, json: { a: [1] })
    assert_equal ['{"a":[1]}', true], [json.last, json.include?("Content-Type: application/json")]
    form = echo.call(:put, form: { a: "1 2", b: %w[x y] })
    assert_equal ["a=1+2&b=x&b=y", true], [form.last, form.include?("Content-Type: application/x-www-form-urlencoded")]
    assert_includes echo.call(:patch, body: "bytes"), "Content-Type: application/octet-stream"
    assert_includes echo.call(:post, body: "<x/>", headers: { "content-type" => "text/xml" }), "Content-Type: text/xml"
    assert_equal "streamed", echo.call(:post, body: StringIO.new("streamed")).last
    reader, writer = IO.pipe
    writer.write("piped")
    writer.close
    piped = echo.call(:post, body: reader)
    assert_equal ["piped", true], [piped.last, piped.include?("Transfer-Encoding: chunked")]
    assert_equal "DELETE /echo?x=1 HTTP/1.1", echo.call(:delete)[0]
    assert_equal 200, H.head(@server.url("/plain")).status
    assert_includes H.get(@server.url("/echo").sub("//", "//me:p%40ss@")).body, "Authorization: Basic #{["me:p@ss"].pack("m0")}"
    assert_equal "PURGE /echo HTTP/1.1", H.request("PURGE", @server.url("/echo")).body.lines(chomp: true)[0]
  end

  def test_a_body_in_pieces
    got = +""
    response = H.get(@server.url("/big")) { |piece| got << piece }
    assert_equal [HostileServer::BIG, nil, 200], [got, response.body, response.status]
  end

  def test_json
    @server.define_singleton_method(:on_json) { |_| with("200 OK", '{"name":"Kölsch"}', "Content-Type: application/json") }
    assert_equal({ "name" => "Kölsch" }, H.get(@server.url("/json")).json)
  end

  def test_errors_are_net_http_s
    assert_raises(Errno::ECONNREFUSED) { H.get("http://127.0.0.1:1/") }
    assert_raises(EOFError) { H.get(@server.url("/empty")) }
    assert_raises(Net::ReadTimeout) { H.get(@server.url("/stall"), timeout: 0.05, open_timeout: 10) }
    assert_raises(H::DeadlineExceeded) { H.get(@server.url("/stall-body"), deadline: 0.5) }
    error = assert_raises(ArgumentError) { H.get(@server.url, time_out: 1) }
    assert_includes error.message, "unknown option :time_out"
    assert_raises(ArgumentError) { H.get("ftp://x.test/") }
    assert_raises(ArgumentError) { H.post(@server.url, body: "a", json: {}) }
    assert_raises(URI::InvalidURIError) { H.get("http://x y/") }
  end

  def test_tls_and_proxies_have_their_options
    https = server(tls: :client)
    options = { ca_file: Certificates.ca_file, cert: Certificates.client.certificate, key: Certificates.client.key }
    assert_equal "plain", H.get(https.url("/plain"), **options).body
    assert_raises(OpenSSL::SSL::SSLError, Errno::ECONNRESET, EOFError) { H.get(https.url("/plain"), ca_file: Certificates.ca_file) }
    # The server itself plays the proxy: it is asked in absolute-form.
    assert_equal 200, H.get("http://api.test/x", proxy: @server.url).status
    assert_equal "http://api.test/x", @server.asked.last.target
    ENV["http_proxy"] = @server.url
    H.get("http://api.test/y")
    assert_equal "http://api.test/y", @server.asked.last.target
    H.get(@server.url("/z"), proxy: nil)
    assert_equal "/z", @server.asked.last.target
  end

  [false, true].each do |by_front|
    define_method("test_all_at_once#{"_through_the_front" if by_front}") do
      egress = (front if by_front)
      count = 15
      together = barrier(count)
      @server.define_singleton_method(:on_together) do |asked|
        together.call
        with("200 OK", asked.target)
      end
      responses = H.all { |calls| count.times { |number| assert_equal number, calls.get(@server_url ||= @server.url("/together"), params: { number: number }) } }
      assert_equal Array.new(count) { |number| "/together?number=#{number}" }, responses.map(&:body)
      assert_equal count, egress.connections if egress
    end

    define_method("test_all_tells_errors_one_by_one#{"_through_the_front" if by_front}") do
      front if by_front
      responses = H.all do |calls|
        calls.get @server.url("/plain")
        calls.get "http://127.0.0.1:1/"
        calls.post @server.url("/empty"), body: "x"
        calls.get @server.url("/stall"), timeout: 0.05, open_timeout: 10
        calls.get @server.url("/big")
      end
      assert_equal [nil, Errno::ECONNREFUSED, EOFError, Net::ReadTimeout, nil], responses.map { |response| response.error&.class }
      assert_equal [true, false, false, false, true], responses.map(&:ok?)
      assert_equal HostileServer::BIG, responses[4].body
      assert_raises(Errno::ECONNREFUSED) { responses[1].status }
    end
  end

  def test_all_takes_no_more_than_it_may_at_once
    20.times { H.all(at_once: 3) { |calls| 10.times { calls.get @server.url("/plain") } } }
    assert_equal 3, @server.connections
    assert_equal [], H.all { nil }
  end

  def test_all_that_is_left_leaves_nothing_behind
    assert_raises(Timeout::Error) do
      Timeout.timeout(1) { H.all { |calls| 3.times { calls.get @server.url("/stall") } } }
    end
    assert_equal 0, H.pool.size
    assert_equal "plain", H.get(@server.url("/plain")).body
  end

  # No handshake is answered before both have connected.
  def test_all_open_their_connections_at_once
    https = server(tls: :yes)
    together = barrier(2)
    https.define_singleton_method(:serve) do |plain|
      together.call
      super(plain)
    end
    responses = H.all { |calls| 2.times { calls.get https.url("/plain"), ca_file: Certificates.ca_file, timeout: 5 } }
    assert_equal %w[plain plain], responses.map(&:body)
  end

  def test_who_is_not_waited_for_any_more_is_ended
    reader, = IO.pipe
    ended = []
    waiting = lambda do
      H::Together.current.wait(reader, :read, nil)
    ensure
      ended << :waiting
    end
    aside = lambda do
      H::Together.current.aside { Queue.new.pop }
    ensure
      ended << :aside
    end
    assert_raises(RuntimeError) { H::Together.run([waiting, aside, -> { raise "all of it" }], 9) }
    assert_equal %i[aside waiting], ended.sort
  end

  def test_all_over_tls
    https = server(tls: :yes)
    2.times do
      responses = H.all { |calls| 5.times { calls.get https.url("/big"), ca_file: Certificates.ca_file } }
      assert_equal [HostileServer::BIG], responses.map(&:body).uniq
    end
    assert_equal 5, https.connections
  end

  def test_a_block_within_all_may_make_calls
    got = H.all { |calls| calls.get(@server.url("/plain")) { H.get(@server.url("/big")).body } }
    assert_equal 200, got[0].status
  end
end
