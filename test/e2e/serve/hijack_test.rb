# Apps that take the connection over (Rack's full and partial hijack). One thread, so that a thread that is lost shows.
require_relative "../support/rack_routes"
require_relative "../support/scenario"
require_relative "../support/wire"

class HijackTest < Minitest::Test
  include Scenario
  include RackRoutes

  rack_setup <<~'RUBY'
    UPGRADED = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
    TEXT = { "content-type" => "text/plain" }.freeze
    def echo(io)
      line = +"" # Rack 2's Lint gives an io without gets
      while (byte = io.read(1))
        next if (line << byte)[-1] != "\n"
        io.write("you said #{line}")
        line = +""
      end
      io.write("bye\n")
    ensure
      io.close
    end
    def full(env)
      env["rack.hijack"].call
      env["rack.hijack_io"]
    end
    # Takes the connection over, and all that it ever says is this.
    def say(env, response)
      io = full(env)
      io.write(response)
      io.close
      [200, TEXT.dup, []]
    end
  RUBY

  rack { [200, TEXT.dup, ["plain"]] }

  UPGRADE = "Host: test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"

  def server = @server ||= start

  # The only thread serves on.
  def assert_serves
    assert_equal "plain", server.get("/other").body
  end

  def assert_echoes(path)
    server.connect do |socket|
      socket.write("GET #{path} HTTP/1.1\r\n#{UPGRADE}first\n")
      head = Wire.head(socket)
      assert_equal ["HTTP/1.1 101 Switching Protocols", "Upgrade", "echo"], [head.line, head["connection"], head["upgrade"]]
      assert_equal "you said first\n", socket.gets
      assert_serves
      socket.write("second\n")
      assert_equal "you said second\n", socket.gets
      socket.close_write
      assert_equal "bye\n", socket.read
    end
    assert_serves
    server.wait_for(%r{"GET #{path} HTTP/1.1" 101 })
  end

  rack("/upgrade") do |env|
    io = full(env)
    io.write(UPGRADED)
    Thread.new { echo(io) }
    [200, TEXT.dup, ["ignored"]]
  end

  def test_a_full_hijack_of_an_upgrade_speaks_both_ways_until_each_side_closes = assert_echoes("/upgrade")

  rack("/partial_upgrade") { [101, { "connection" => "Upgrade", "upgrade" => "echo", "rack.hijack" => ->(io) { Thread.new { echo(io) } } }, []] }

  def test_a_partial_hijack_of_an_upgrade_speaks_both_ways = assert_echoes("/partial_upgrade")

  def test_a_hijacker_has_the_time_of_any_answer_to_begin
    dir = app("config.ru" => <<~RUBY, "paceline.toml" => "app_hard_timeout = \"1s\"\n")
      KEPT = []
      run(lambda do |env|
        next [200, {}, [Process.pid.to_s]] if env["PATH_INFO"] == "/other"
        KEPT << (io = env["rack.hijack"].call)
        if env["PATH_INFO"] == "/begun"
          io.write("HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\n")
          Thread.new { File.read("barrier"); io.write("hello") }
        end
        raise "it is lost"
      end)
    RUBY
    gate = barrier(dir)
    server = serve(dir, "-w", "1", "-t", "1")
    worker = server.get("/other").body
    begun = Thread.new { server.get("/begun").body }
    assert_equal "504", server.get("/kept").code
    gate.open
    assert_equal "hello", begun.value, "what has begun has no limit"
    assert_equal worker, server.get("/other").body
  end

  def test_an_upgrade_nobody_asked_for_is_an_error
    assert_equal "500", server.get("/upgrade").code
    assert_serves
    server.wait_for(/unsendable response: 101 for a request that asked for no upgrade/)
  end

  rack("/plain") { |env| say(env, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nfrom the hijacker") }
  rack("/sized") { |env| say(env, "HTTP/1.1 201 Created\r\nContent-Length: 5\r\nX-Own: yes\r\n\r\nhello") }
  rack("/coded") { |env| say(env, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 99\r\n\r\n5\r\nhello\r\n0\r\n\r\n") }
  rack("/identity") { |env| say(env, "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nas it is") }

  def test_a_full_hijack_writes_a_response_of_its_own
    server.connect do |socket|
      socket.write("GET /plain HTTP/1.1\r\nHost: test\r\n\r\n")
      answer = Wire.response(socket)
      assert_equal [200, "text/plain", "from the hijacker"], [answer.status, answer["content-type"], answer.body]
      socket.write("GET /sized HTTP/1.1\r\nHost: test\r\n\r\n")
      answer = Wire.response(socket)
      assert_equal ["HTTP/1.1 201 Created", "5", "yes", "hello"], [answer.line, answer["content-length"], answer["x-own"], answer.body]
      %w[/coded hello /identity as\ it\ is].each_slice(2) do |path, body|
        socket.write("GET #{path} HTTP/1.1\r\nHost: test\r\n\r\n")
        answer = Wire.response(socket)
        assert_equal [200, nil, body], [answer.status, answer["content-length"], answer.body], path
      end
      socket.write("GET /other HTTP/1.1\r\nHost: test\r\n\r\n")
      assert_equal "plain", Wire.response(socket).body
    end
  end

  rack("/garbage") { |env| say(env, "this is no response\r\n\r\n") }
  rack("/silent") { |env| say(env, "") }

  def test_a_hijacker_that_writes_no_response_is_an_error
    %w[/garbage /silent].each do |path|
      assert_equal "500", server.get(path).code, path
      assert_serves
    end
  end

  rack("/partial") do
    [200, { "content-type" => "text/plain", "rack.hijack" => lambda { |io|
      Thread.new { io.write("one "); File.read("barrier"); io.write("two"); io.close }
    } }, []]
  end

  def test_a_partial_hijack_streams_while_its_thread_serves_on
    server
    gate = barrier(@dir)
    server.connect do |socket|
      socket.write("GET /partial HTTP/1.1\r\nHost: test\r\n\r\n")
      assert_equal [200, "chunked"], Wire.head(socket).then { |head| [head.status, head["transfer-encoding"]] }
      assert_equal "one ", Wire.chunk(socket)
      assert_serves
      gate.open
      assert_equal ["two", nil], [Wire.chunk(socket), Wire.chunk(socket)]
    end
  end

  rack("/partial_gone") do
    [200, { "content-type" => "text/plain", "rack.hijack" => lambda { |io|
      Thread.new do
        io.write("one ")
        File.read("barrier")
        loop { io.write("more " * 10_000) }
      rescue SystemCallError => e
        File.write("noticed", e.class.name)
      end
    } }, []]
  end

  def test_a_hijacker_notices_a_client_that_is_gone
    server
    gate, noticed = barrier(@dir), barrier(@dir, "noticed")
    server.connect do |socket|
      socket.write("GET /partial_gone HTTP/1.1\r\nHost: test\r\n\r\n")
      Wire.head(socket)
      assert_equal "one ", Wire.chunk(socket)
    end
    gate.open
    assert_equal "Errno::EPIPE", noticed.wait
    assert_serves
  end
end
