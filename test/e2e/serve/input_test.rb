# What clients send: request bodies in memory, spooled, chunked, passed on as they come, too large, broken off.
require_relative "../support/rack_routes"
require_relative "../support/scenario"
require_relative "../support/wire"
require "digest"
require "json"

class InputTest < Minitest::Test
  include Scenario
  include RackRoutes

  rack_setup <<~'RUBY'
    require "json"
    require "digest"
    require "timeout"
    $calls = 0
    def json(facts) = [200, { "content-type" => "application/json" }, [JSON.generate(facts)]]
  RUBY

  # What the app is told of the body, and what it reads.
  rack("/read") do |env|
    $calls += 1
    input = env["rack.input"]
    first = input.read
    told = { "length" => env["CONTENT_LENGTH"], "type" => env["CONTENT_TYPE"], "coding" => env["HTTP_TRANSFER_ENCODING"] }
    if input.respond_to?(:rewind)
      input.rewind
      told["again"] = input.read == first
    end
    json(told.update("size" => first.bytesize, "digest" => Digest::SHA256.hexdigest(first), "spool" => env["paceline.input"]))
  end
  # How often it has read.
  rack("/calls") { json("calls" => $calls) }

  def post(socket, path, body, *fields)
    socket.write(["POST #{path} HTTP/1.1", "Host: test", *fields, "", ""].join("\r\n") + body)
    Wire.response(socket)
  end

  def chunked(*pieces) = [*pieces, ""].map { |piece| "#{piece.bytesize.to_s(16)}\r\n#{piece}\r\n" }.join

  rack("/lines") do |env|
    lines = []
    env["rack.input"].each { |line| lines << line }
    json("lines" => lines)
  end

  def test_a_small_body_is_there_and_rewinds
    server = start
    server.connect do |socket|
      told = JSON.parse(post(socket, "/read", "hello", "Content-Length: 5", "Content-Type: text/plain").body)
      assert_equal ["5", 5, "text/plain", nil, Digest::SHA256.hexdigest("hello")], told.values_at("length", "size", "type", "spool", "digest")
      refute_equal false, told["again"]
      assert_equal %W[one\n two], JSON.parse(post(socket, "/lines", "one\ntwo", "Content-Length: 7").body)["lines"]
      none = JSON.parse(post(socket, "/read", "").body)
      assert_equal [nil, 0], none.values_at("length", "size")
    end
  end

  def test_a_large_body_is_spooled_and_its_file_is_gone_afterwards
    body = Random.new(2).bytes(300_000)
    server = start
    server.connect do |socket|
      told = JSON.parse(post(socket, "/read", body, "Content-Length: 300000").body)
      assert_equal ["300000", 300_000, Digest::SHA256.hexdigest(body)], told.values_at("length", "size", "digest")
      refute_equal false, told["again"]
      assert_match(%r{\A/.*paceline-\d+}, told["spool"])
      eventually("the spool to be gone") { !File.exist?(told["spool"]) }
    end
  end

  def test_a_body_of_exactly_the_bound_stays_in_memory
    server = start
    server.connect do |socket|
      assert_nil JSON.parse(post(socket, "/read", "x" * 65_536, "Content-Length: 65536").body)["spool"]
      refute_nil JSON.parse(post(socket, "/read", "x" * 65_537, "Content-Length: 65537").body)["spool"]
    end
  end

  def test_a_chunked_body_gets_its_length
    server = start
    server.connect do |socket|
      told = JSON.parse(post(socket, "/read", chunked("hello ", "world"), "Transfer-Encoding: chunked").body)
      assert_equal ["11", nil, 11, Digest::SHA256.hexdigest("hello world")], told.values_at("length", "coding", "size", "digest")
      empty = JSON.parse(post(socket, "/read", chunked, "Transfer-Encoding: chunked").body)
      assert_equal ["0", 0], empty.values_at("length", "size")
      large = JSON.parse(post(socket, "/read", chunked("x" * 50_000, "y" * 50_000), "Transfer-Encoding: chunked").body)
      assert_equal ["100000", 100_000], large.values_at("length", "size")
      refute_nil large["spool"]
    end
  end

  rack("/unread") { json({}) }

  def test_a_body_nobody_reads_is_not_taken_for_the_next_request
    server = start
    server.connect do |socket|
      post(socket, "/unread", "GET /evil HTTP/1.1\r\n\r\n", "Content-Length: 22")
      post(socket, "/unread", "x" * 100_000, "Content-Length: 100000")
      assert_equal 2, JSON.parse(post(socket, "/read", "ok", "Content-Length: 2").body)["size"]
    end
  end

  def test_100_continue_comes_before_the_body_and_only_when_it_is_wanted
    server = start("--max-body", "1000")
    server.connect do |socket|
      socket.write("POST /read HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
      assert_equal "HTTP/1.1 100 Continue\r\n\r\n", socket.readpartial(1000)
      socket.write("hello")
      assert_equal 5, JSON.parse(Wire.response(socket).body)["size"]

      socket.write("POST /read HTTP/1.1\r\nHost: test\r\nContent-Length: 5000\r\nExpect: 100-continue\r\n\r\n")
      assert_equal 413, Wire.response(socket).status
    end
  end

  def test_a_body_over_the_bound_is_refused_and_its_sender_hears_so
    server = start("--max-body", "100KB")
    ["Content-Length: 8000000\r\n\r\n" + "x" * 8_000_000, "Transfer-Encoding: chunked\r\n\r\n" + chunked(*["x" * 1_000_000] * 8)].each do |rest|
      server.connect do |socket|
        socket.write("POST /read HTTP/1.1\r\nHost: test\r\nAccept: text/plain\r\n#{rest}")
        answer = Wire.response(socket)
        assert_equal [413, "close"], [answer.status, answer["connection"]]
        assert_match(/larger than the 10\d+ bytes/, answer.body)
        assert_equal "", socket.read
      end
    end
    assert_equal 0, JSON.parse(server.get("/calls").body)["calls"]
    server.wait_for(%r{"POST /read HTTP/1.1" 413 })
  end

  def test_a_client_that_sends_slowly_holds_no_thread
    server = start
    server.connect do |slow|
      slow.write("POST /read HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhello")
      assert_equal 0, JSON.parse(server.get("/calls").body)["calls"]
      slow.write("world")
      assert_equal 10, JSON.parse(Wire.response(slow).body)["size"]
    end
  end

  def test_a_client_that_breaks_off_never_reaches_the_app
    server = start
    server.connect { |socket| socket.write("POST /read HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhello") }
    server.wait_for(%r{"POST /read HTTP/1.1" (499|400) })
    server.connect do |socket|
      socket.write("POST /read HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n")
      assert_equal 400, Wire.response(socket).status
    end
    assert_equal 0, JSON.parse(server.get("/calls").body)["calls"]
  end

  rack("/first") do |env|
    first = env["rack.input"].read(5)
    File.write("first", first)
    json("first" => first, "rest" => env["rack.input"].read.bytesize)
  end

  def test_without_buffering_the_app_has_the_first_bytes_before_the_last_are_sent
    server = start("--buffer-requests=false")
    first = barrier(@dir, "first")
    [["Content-Length: 200000\r\n\r\n", "hello", "x" * 199_995], ["Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n", chunked("x" * 199_995)]].each do |field, start, rest|
      server.connect do |socket|
        socket.write("POST /first HTTP/1.1\r\nHost: test\r\n#{field}#{start}")
        assert_equal "hello", first.wait
        socket.write(rest)
        assert_equal ["hello", 199_995], JSON.parse(Wire.response(socket).body).values_at("first", "rest")
        assert_equal 2, JSON.parse(post(socket, "/read", "ok", "Content-Length: 2").body)["size"]
      end
    end
  end

  rack("/impatient") do |env|
    begin
      Timeout.timeout(0.2) { env["rack.input"].read(10) }
    rescue Timeout::Error
      File.write("first", "nothing more came")
    end
    json("body" => env["rack.input"].read)
  end

  def test_without_buffering_an_app_that_waits_no_longer_has_lost_nothing
    server = start("--buffer-requests=false")
    first = barrier(@dir, "first")
    server.connect do |socket|
      socket.write("POST /impatient HTTP/1.1\r\nHost: test\r\nContent-Length: 200000\r\n\r\nhello")
      assert_equal "nothing more came", first.wait
      socket.write("x" * 199_995)
      assert_equal "hello#{"x" * 199_995}", JSON.parse(Wire.response(socket).body)["body"]
      assert_equal 2, JSON.parse(post(socket, "/read", "ok", "Content-Length: 2").body)["size"]
    end
  end

  rack("/upload") do |env|
    json("size" => env["rack.input"].read.bytesize)
  rescue IOError => e
    File.write("cut", e.class.name)
    raise
  end

  def test_without_buffering_a_body_that_is_cut_off_raises_in_the_app
    server = start("--buffer-requests=false", "--max-body", "300KB")
    cut = barrier(@dir, "cut")
    server.connect { |socket| socket.write("POST /upload HTTP/1.1\r\nHost: test\r\nContent-Length: 200000\r\n\r\nhello") }
    assert_equal "Paceline::BodyCutOff", cut.wait
    server.connect do |socket|
      socket.write("POST /upload HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(*["x" * 100_000] * 4))
      assert_equal "Paceline::BodyCutOff", cut.wait
      assert_equal 500, Wire.response(socket).status
    end
    assert_equal 0, JSON.parse(server.get("/calls").body)["calls"]
  end
end
