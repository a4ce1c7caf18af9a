# A connection that is idle is left without a parser; nobody who uses it again can tell.
require_relative "../support/scenario"
require_relative "../support/certificates"
require_relative "../support/wire"

class IdleTest < Minitest::Test
  include Scenario

  ECHO = { "config.ru" => <<~'RUBY' }.freeze
    run ->(env) { [200, { "content-type" => "text/plain" }, [env["REQUEST_METHOD"], " ", env["rack.input"].read]] }
  RUBY
  GET = "GET / HTTP/1.1\r\nHost: a\r\n\r\n".freeze

  # A connection that has been served, and rests.
  def rested(server)
    socket = server.connect
    socket.write(GET)
    assert_equal "GET ", Wire.response(socket).body
    rest(server)
    socket
  end

  def rest(server, count = 1) = eventually("#{count} to rest") { server.state[:resting] == count }

  def test_it_is_used_again_as_if_nothing_had_been
    server = serve(app(ECHO))
    socket = rested(server)
    3.times do
      socket.write(GET)
      assert_equal "GET ", Wire.response(socket).body
      rest(server)
    end
    socket.write(GET + "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy" + GET)
    assert_equal ["GET ", "POST xy", "GET "], Array.new(3) { Wire.response(socket).body }
    rest(server)
    socket.write("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n\r\n")
    assert_equal 100, Wire.response(socket).status
    socket.write("x" * 100_000)
    assert_equal 100_005, Wire.response(socket).body.bytesize
    rest(server)
    socket.write("GET / HTT")
    rest(server, 0)
    socket.write("P/1.1\r\nHost: a\r\n\r\n")
    assert_equal "GET ", Wire.response(socket).body
  ensure
    socket&.close
  end

  def test_it_may_become_another_protocol
    dir = app("config.ru" => <<~'RUBY')
      run lambda { |env|
        next [200, {}, ["GET "]] unless env["HTTP_UPGRADE"]
        [101, { "upgrade" => "echo", "connection" => "upgrade", "rack.hijack" => ->(io) { io.write(io.readpartial(100)); io.close } }, []]
      }
    RUBY
    server = serve(dir)
    socket = rested(server)
    socket.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
    assert_equal 101, Wire.response(socket).status
    socket.write("something else")
    assert_equal "something else", Timeout.timeout(PATIENCE) { socket.read }
  ensure
    socket&.close
  end

  def test_limits_and_time_outs_are_the_same
    server = serve(app(ECHO), "--keepalive-timeout", "4s", "--head-timeout", "2s")
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    wrong, slow, idle = Array.new(3) do
      server.connect.tap do |socket|
        socket.write(GET)
        Wire.response(socket)
      end
    end
    rest(server, 3)
    wrong.write("GET / HTTP/1.1\r\n\r\n")
    slow.write("GET /")
    assert_equal [400, 408], [wrong, slow].map { |socket| Wire.response(socket).status }
    assert_equal "", Timeout.timeout(PATIENCE) { idle.read }
    assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - began, :>, 3.9
    rest(server, 0)
  ensure
    [wrong, slow, idle].each { |socket| socket&.close }
  end

  def test_a_client_that_leaves_and_a_server_that_stops
    server = serve(app(ECHO))
    rested(server).close
    rest(server, 0)
    socket = rested(server)
    server.signal(:TERM)
    assert_equal "", Timeout.timeout(PATIENCE) { socket.read }
    assert_equal 0, server.wait.exitstatus
  ensure
    socket&.close
  end

  def test_over_tls_and_a_unix_socket
    dir = app(ECHO)
    authority = Authority.new
    cert, key = authority.write(dir, "shop", "shop.test")
    path = File.join(dir, "server.sock")
    server = serve(dir, "-b", "ssl://127.0.0.1:0?cert=#{cert}&key=#{key}", "-b", "unix://#{path}", port: false)
    server.wait_for(/Listening on https:\/\/\S+:(\d+)/) { |match| server.port = Integer(match[1]) }
    clients = [authority.connect(server.port, "shop.test"), UNIXSocket.new(path)]
    3.times do
      clients.each do |socket|
        socket.write(GET.sub("Host: a", "Host: shop.test"))
        assert_equal "GET ", Wire.response(socket).body
      end
      rest(server, 2)
    end
    server.signal(:TERM)
    # Over TLS this is an error if the server does not say goodbye.
    assert_equal ["", ""], clients.map { |socket| Timeout.timeout(PATIENCE) { socket.read } }
  ensure
    clients&.each(&:close)
  end
end
