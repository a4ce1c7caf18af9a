# What a client may not do to the server: each limit has its own clear answer, and those who keep to them notice nothing.
require "digest"
require_relative "../support/scenario"

class LimitsTest < Minitest::Test
  include Scenario

  ECHO = { "config.ru" => <<~RUBY }.freeze
    run ->(env) { body = env["rack.input"].read; [200, { "content-type" => "text/plain" }, ["read ", body.bytesize.to_s]] }
  RUBY
  HOST = "Host: a\r\n".freeze

  def test_a_head_that_does_not_come_gets_408
    server = serve(app(ECHO), "--head-timeout", "200ms")
    answer = server.exchange("GET / HTTP/1.1\r\nHos")
    assert_match(/\AHTTP\/1\.1 408 .*^connection: close\r$.*The request did not come in time/mi, answer)
    server.wait_for(/"- \* HTTP\/1\.1" 408 .*refused: The request did not come in time/)
  end

  def test_a_head_in_single_bytes_gets_408_in_the_same_time
    server = serve(app(ECHO), "--head-timeout", "300ms")
    server.connect do |socket|
      trickle(socket, "GET / HTTP/1.1\r\n#{"X: y\r\n" * 1000}")
      assert_match(/\AHTTP\/1\.1 408 /, rest(socket))
    end
  end

  def test_a_connection_without_a_byte_is_closed_without_a_word
    server = serve(app(ECHO), "--head-timeout", "200ms")
    assert_equal "", server.exchange("")
    assert_equal "", server.exchange("\r\n")
  end

  def test_an_idle_connection_is_closed_and_a_busy_one_is_not
    dir = app("config.ru" => 'run ->(env) { File.read("barrier") if env["PATH_INFO"] == "/wait"; [200, {}, ["ok"]] }')
    gate = barrier(dir)
    server = serve(dir, "--keepalive-timeout", "200ms")
    idle, busy = server.connect, server.connect
    [idle, busy].each { |socket| socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n") }
    busy.write("GET /wait HTTP/1.1\r\n#{HOST}\r\n")
    assert_match(/\AHTTP\/1\.1 200 .*ok\z/m, rest(idle))
    gate.open
    # Both answers: it was closed only after the second.
    assert_equal 2, rest(busy).scan("HTTP/1.1 200 ").size
  end

  def test_a_body_that_comes_too_slowly_gets_408
    server = serve(app(ECHO), "--body-timeout", "300ms", "--body-progress", "1KB")
    server.connect do |socket|
      socket.write("POST / HTTP/1.1\r\n#{HOST}Content-Length: 100000\r\n\r\n")
      trickle(socket, "x" * 5000)
      assert_match(/\AHTTP\/1\.1 408 .*came too slowly/m, rest(socket))
    end
    server.wait_for(/"POST \/ HTTP\/1\.1" 408 .*refused: The body of this request came too slowly/)
  end

  # Progress counts, not the whole: this body takes several times its time-out.
  def test_a_slow_body_that_goes_on_is_taken
    server = serve(app(ECHO), "--body-timeout", "1s", "--body-progress", "1KB")
    server.connect do |socket|
      socket.write("POST / HTTP/1.1\r\n#{HOST}Connection: close\r\nContent-Length: 24576\r\n\r\n")
      12.times do
        socket.write("x" * 2048)
        sleep 0.25 # the slowness itself is what is tried
      end
      assert_match(/read 24576\z/, rest(socket))
    end
  end

  def test_a_client_that_takes_nothing_of_its_answer_is_let_go
    dir = app("config.ru" => 'run ->(env) { [200, {}, Array.new(800) { "x" * 65_536 }] }')
    server = serve(dir, "--write-timeout", "300ms")
    server.connect do |socket|
      socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
      server.wait_for(/"GET \/ HTTP\/1\.1" 200 .*cut=1/)
    end
  end

  def test_lengths_have_their_own_answers
    server = serve(app(ECHO), "--max-uri", "300", "--max-header-bytes", "2KB", "--max-headers", "10", "--max-body", "1KB")
    status = ->(head, body = "") { server.exchange("#{head}\r\nConnection: close\r\n#{HOST}\r\n#{body}")[/\AHTTP\/1\.1 (\d+)/, 1] }
    assert_equal "200", status["GET /#{"a" * 299} HTTP/1.1"]
    assert_equal "414", status["GET /#{"a" * 300} HTTP/1.1"]
    assert_equal "431", status["GET / HTTP/1.1\r\nX: #{"a" * 2100}"]
    assert_equal "200", status["GET / HTTP/1.1#{"\r\nX: y" * 8}"]
    assert_equal "431", status["GET / HTTP/1.1#{"\r\nX: y" * 9}"]
    assert_equal "413", status["POST / HTTP/1.1\r\nContent-Length: 1025"]
    assert_equal "200", status["POST / HTTP/1.1\r\nContent-Length: 1024", "x" * 1024]
  end

  def test_more_fields_than_the_parser_has_room_for_by_itself
    server = serve(app(ECHO), "--max-headers", "500")
    assert_match(/\AHTTP\/1\.1 200 /, server.exchange("GET / HTTP/1.1\r\nConnection: close\r\n#{HOST}#{"X: y\r\n" * 400}\r\n"))
  end

  def test_connections_in_all_are_bounded
    server = serve(app(ECHO), "--max-connections", "2")
    held = Array.new(2) { server.connect }
    held.each { |socket| socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n") }
    held.each { |socket| assert_match(/\AHTTP\/1\.1 200 /, socket.readpartial(100)) }
    assert_match(/\AHTTP\/1\.1 503 .*^Retry-After: 1\r$.*too many connections/mi, server.exchange("GET / HTTP/1.1\r\n#{HOST}\r\n"))
    server.wait_for(/are refused: max_connections is reached$/)
    held.first.close
    eventually("room for another") { server.exchange("GET / HTTP/1.1\r\nConnection: close\r\n#{HOST}\r\n").start_with?("HTTP/1.1 200 ") }
  end

  def test_connections_of_one_address_are_bounded
    server = serve(app(ECHO), "--max-connections-per-address", "1")
    server.connect do |socket|
      socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
      assert_match(/\AHTTP\/1\.1 200 /, socket.readpartial(100))
      assert_match(/\AHTTP\/1\.1 503 /, server.exchange("GET / HTTP/1.1\r\n#{HOST}\r\n"))
      server.wait_for(/Connections from 127\.0\.0\.1 are refused/)
    end
  end

  def test_a_path_asked_too_often_gets_429
    settings = "[[rate_limit]]\npath = \"/login\"\nrate = \"2/h\"\nburst = 3\n"
    server = serve(app(ECHO.merge("paceline.toml" => settings)))
    assert_equal %w[200 200 200], Array.new(3) { server.get("/login").code }
    refused = server.get("/%6cogin/again")
    assert_equal "429", refused.code
    assert_in_delta 1800, Integer(refused["retry-after"]), 60
    assert_equal "200", server.get("/").code
    server.wait_for(/"GET \/%6cogin\/again HTTP\/1\.1" 429 .*note="rate_limit"/)
  end

  def test_rate_limits_by_flag
    server = serve(app(ECHO), "--rate-limit", "/a 1/h", "--rate-limit", "/b 1/h 2")
    assert_equal %w[200 429 200 200 429], %w[/a /a /b /b /b].map { |path| server.get(path).code }
  end

  def test_a_wrong_rate_limit_is_told_with_its_place
    dir = app(ECHO.merge("paceline.toml" => "[[rate_limit]]\npath = \"/login\"\nrate = \"often\"\n"))
    server = serve(dir, ready: false, port: false)
    refute_equal 0, server.wait.exitstatus
    assert_match(/paceline\.toml:1:\d+: "rate_limit" must have a rate like "5\/s".*not "often"/, server.output)
  end

  # Beyond buffer_memory bodies of both directions go to files, and come out whole.
  def test_memory_for_bodies_is_bounded_in_all
    dir = app("config.ru" => <<~'RUBY')
      require "digest"
      run ->(env) {
        if env["PATH_INFO"] == "/big"
          [200, {}, Array.new(600) { |i| (i % 256).chr(Encoding::BINARY) * 16_384 }]
        else
          input = env["rack.input"].read
          [200, {}, ["#{input.bytesize} #{Digest::MD5.hexdigest(input)} #{env["rack.input"].inspect}"]]
        end
      }
    RUBY
    server = serve(dir, "--buffer-memory", "1MB", "--body-memory", "8MB", "--response-memory", "64MB", "-t", "4")
    readers = Array.new(3) do
      server.connect.tap { |socket| socket.write("GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") }
    end
    # All three responses have left their worker though nobody reads, and most of them are in files.
    eventually("the responses in files") { spool_bytes(server.pid) > 3 * 8_000_000 - 3 * 4_000_000 }
    sent = "u" * 3_000_000
    answer = server.request(Net::HTTP::Post.new("/in").tap { |post| post.body = sent })
    assert_equal "3000000 #{Digest::MD5.hexdigest(sent)}", answer.body[/\A\d+ \h+/]
    assert_match(/SpooledInput/, answer.body)
    readers.each do |socket|
      body = rest(socket).split("\r\n\r\n", 2).last
      assert_operator body.bytesize, :>=, 600 * 16_384
    end
  end

  # The app is never asked, the client is told, and the server lives.
  def test_a_body_that_finds_no_room_on_disk_gets_507
    dir = app(ECHO)
    server = serve(dir, "--body-memory", "1KB", env: { "TMPDIR" => File.join(dir, "missing") })
    refused = server.request(Net::HTTP::Post.new("/").tap { |post| post.body = "x" * 100_000 })
    assert_equal "507", refused.code
    server.wait_for(/" 507 .*could not be spooled/)
    assert_equal "read 10", server.request(Net::HTTP::Post.new("/").tap { |post| post.body = "x" * 10 }).body
  end

  # A response that finds none keeps its worker waiting, and comes whole.
  def test_a_response_that_finds_no_room_on_disk_still_comes
    dir = app("config.ru" => 'run ->(env) { [200, {}, Array.new(600) { "y" * 16_384 }] }')
    server = serve(dir, "--response-memory", "64KB", env: { "TMPDIR" => File.join(dir, "missing") })
    assert_equal 600 * 16_384, server.get("/").body.bytesize
  end

  # Out of descriptors: those being served go on, and new ones are taken when there is room again.
  def test_a_server_without_descriptors_serves_those_it_has_and_recovers
    server = serve(app(ECHO), "--front-threads", "1")
    kept = server.connect
    ask = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    kept.write(ask)
    assert_match(/\AHTTP\/1\.1 200 /, kept.readpartial(1000))
    open_now = Dir.children("/proc/#{server.pid}/fd").size
    system("prlimit", "--pid", server.pid.to_s, "--nofile=#{open_now + 5}:", exception: true)
    crowd = Array.new(30) { server.connect.tap { |socket| socket.write(ask) } }
    eventually("no descriptor left") { Dir.children("/proc/#{server.pid}/fd").size >= open_now + 5 }
    3.times do
      kept.write(ask)
      assert_match(/\AHTTP\/1\.1 /, kept.readpartial(1000))
    end
    crowd.each(&:close)
    eventually("room again") { server.exchange("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").start_with?("HTTP/1.1 200 ") }
  end

  private

  # Bytes in unlinked temporary files of the process.
  def spool_bytes(pid)
    Dir["/proc/#{pid}/fd/*"].sum { |fd| File.readlink(fd).end_with?("(deleted)") ? File.size(fd) : 0 rescue 0 }
  end

  # One byte at a time until the server has had enough of it.
  def trickle(socket, bytes)
    bytes.each_char do |byte|
      socket.write(byte)
      return if socket.wait_readable(0.01)
    end
    flunk "the server took all of it"
  rescue SystemCallError
    nil
  end

  def rest(socket)
    answer = "".b
    loop { answer << socket.readpartial(65_536) }
  rescue EOFError, Errno::ECONNRESET
    answer
  end
end
