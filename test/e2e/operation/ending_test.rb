# Event streams, WebSockets and requests that are open when the server is told to stop: the application's code for them ends by `ensure` and `close`, and the
# whole within the times that the docs promise.
require_relative "../support/scenario"
require_relative "../support/http2_client"
require_relative "../support/web_socket"
require_relative "../support/wire"

class EndingTest < Minitest::Test
  include Scenario

  # Each body writes down that its `ensure` and its `close` have run.
  APP = <<~'RUBY'
    class Body
      def initialize(name, &pieces) = (@name, @pieces = name, pieces)
      def each
        yield "data: first\n\n"
        loop { yield @pieces.call }
      ensure
        File.write("#{@name}-ensured", "")
      end
      def close = File.write("#{@name}-closed", "")
    end
    def echo(io)
      io.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
      io.read
    ensure
      File.write("socket-ensured", "")
      io.close
    end
    run(lambda do |env|
      events = { "content-type" => "text/event-stream" }
      case env["PATH_INFO"]
      when "/ticks" then [200, events, Body.new("ticks") { sleep 0.01; "data: tick\n\n" }]
      when "/silent" then [200, events, Body.new("silent") { Queue.new.pop }]
      when "/socket" then echo(env["rack.hijack"].call) && [-1, {}, []]
      when "/stuck"
        begin
          File.write("entered", "")
          Queue.new.pop
        ensure
          File.write("stuck-ensured", "")
        end
      else [200, {}, ["ok"]]
      end
    end)
  RUBY

  def start(*arguments, **options)
    @server = serve(@dir = app("config.ru" => APP), "-w", "1", "-t", "3", *arguments, **options)
  end

  def stream(path)
    open_request(path).tap do |socket|
      assert_equal 200, Wire.head(socket).status
      assert_equal "data: first\n\n", Wire.chunk(socket)
    end
  end

  def assert_ran(*names)
    assert_equal names.sort, names.select { |name| File.exist?(File.join(@dir, name)) }.sort
  end

  # Seconds that the end takes.
  def seconds
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    yield
    Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
  end

  def assert_ends(within:, by: :TERM)
    took = seconds do
      @server.signal(by)
      assert_equal 0, @server.wait.exitstatus
    end
    assert_operator took, :<, within
  end

  def test_streams_and_requests_are_cut_off_after_shutdown_timeout
    start("-e", "production", "--shutdown-timeout", "2s")
    stream("/ticks")
    stream("/silent")
    entered = barrier(@dir, "entered")
    open_request("/stuck")
    entered.wait

    assert_ends(within: 7)

    assert_match(%r{^\* Waiting for GET /ticks \(\d+ s\), GET /silent \(\d+ s\), GET /stuck \(\d+ s\), 2s at most \(shutdown_timeout\)\. A second TERM or Ctrl-C stops at once$},
                 @server.output)
    assert_match(%r{^\* Cutting off GET /ticks .* after 2s \(shutdown_timeout\)$}, @server.output)
    assert_ran("ticks-ensured", "ticks-closed", "silent-ensured", "silent-closed", "stuck-ensured")
  end

  def test_in_development_ctrl_c_waits_for_no_stream
    start(hurried: true)
    stream("/ticks")
    stream("/silent")
    assert_ends(within: 6, by: :INT)
    assert_ran("ticks-ensured", "ticks-closed", "silent-ensured", "silent-closed")
  end

  def test_a_stream_of_http2_is_cut_off_too
    start("--shutdown-timeout", "1s")
    client = Http2Client.new(@server.connect)
    client.request(path: "/ticks")
    eventually("the stream") { @server.state[:streams] == 1 }
    assert_ends(within: 6)
    assert_ran("ticks-ensured", "ticks-closed")
  ensure
    client&.close
  end

  def test_websockets_are_closed_when_the_requests_are_done
    start("-e", "production")
    socket = open_request("/socket", "Connection: Upgrade", "Upgrade: echo")
    assert_equal 101, Wire.head(socket).status
    assert_ends(within: 10)
    assert_equal "", socket.read
    assert_ran("socket-ensured")
  end
end
