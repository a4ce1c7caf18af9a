# Clients that shut down their sending side after the request (`nc -N`, simple health checks, old embedded devices) and wait for the answer, and clients that
# have left, which do the same to the connection.
require_relative "../support/scenario"
require_relative "../support/wire"

class HalfCloseTest < Minitest::Test
  include Scenario

  APP = <<~'RUBY'
    run(lambda do |env|
      (File.write("entered", ""); File.read("barrier")) if env["PATH_INFO"] == "/held"
      pieces = Enumerator.new { |out| 3.times { |number| out << "piece #{number} "; sleep 0.01 } }
      [200, {}, env["PATH_INFO"] == "/pieces" ? pieces : ["done ", env["rack.input"].read]]
    end)
  RUBY

  def setup
    @server = serve(@dir = app("config.ru" => APP), "-w", "1", "-t", "1")
    @gate, @entered = barrier(@dir), barrier(@dir, "entered")
  end

  # A connection whose client has said all it has to say.
  def half_closed(path, *fields, body: "", method: "POST")
    socket = @server.connect
    (@sockets ||= []) << socket
    head = ["#{method} #{path} HTTP/1.1", "Host: test", "Content-Length: #{body.bytesize}", *fields, "", ""]
    socket.write(head.join("\r\n") + body)
    socket.close_write
    socket
  end

  def answer(socket) = Timeout.timeout(PATIENCE) { socket.read }

  def test_the_answer_comes_whatever_the_request_has_to_wait_for
    held = half_closed("/held", "Connection: close", body: "first")
    @entered.wait
    waiting = half_closed("/next", body: "second")
    eventually("the request to wait for the only thread") { @server.state[:waiting] == 1 }
    @gate.open
    assert answer(held).end_with?("done first")
    assert answer(waiting).end_with?("done second")
    assert_match(/piece 0 .*piece 1 .*piece 2 /m, answer(half_closed("/pieces", "Connection: close", method: "GET")))
  end

  def test_one_that_would_keep_the_connection_or_comes_by_a_proxy_has_left
    @held = Thread.new { @server.get("/held") }
    @entered.wait
    [[], ["Connection: close", "X-Forwarded-For: 192.0.2.1"]].each do |fields|
      assert_equal "", answer(half_closed("/", *fields, method: "GET"))
    end
    @gate.open
    assert_equal "200", @held.value.code
  end
end
