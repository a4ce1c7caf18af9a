# The queue: shortest expected first and otherwise oldest first, nothing waits while a thread is idle for it, bounded by count and by age.
require_relative "../support/scenario"
require_relative "../support/wire"

class QueueTest < Minitest::Test
  include Scenario

  APP = <<~'RUBY'
    require "uri"
    use Rack::Lint
    $order = []
    run lambda { |env|
      path = env["PATH_INFO"]
      case path
      when "/order" then next [200, { "content-type" => "text/plain" }, [$order.join(" ")]]
      when "/report" then sleep 0.5
      when /hold/ then File.write("entered", Process.pid.to_s); File.read(path.delete_prefix("/"))
      end
      $order << path
      [200, { "content-type" => "text/plain" }, [Process.pid.to_s]]
    }
  RUBY

  def start(*arguments, files: {}, **options)
    @server = serve(@dir = app({ "config.ru" => APP }.merge(files)), *arguments, **options)
    @entered = barrier(@dir, "entered")
  end

  # A request that holds its thread until its gate opens; the app has it when this returns.
  Held = Struct.new(:socket, :gate, :pid)

  def hold(name = "hold")
    gate = barrier(@dir, name)
    Held.new(open_request("/#{name}"), gate, @entered.wait)
  end

  def test_the_oldest_request_is_served_first
    start("-t", "1")
    held = hold
    waiting = queue_requests(*(1..8).map { |i| "/#{i}" })
    held.gate.open
    [held.socket, *waiting].each { |socket| assert_equal 200, Wire.response(socket).status }
    assert_equal "/hold /1 /2 /3 /4 /5 /6 /7 /8", @server.get("/order").body
  end

  LEARNT = 4

  # Makes the server know that a report takes long and that most requests don't.
  def learn
    8.times do |round|
      12.times { |i| @server.get("/#{i}") }
      @server.get("/report") if round.odd?
    end
  end

  # Reports come faster than they can be served for as long as the test runs. The thread that is kept from them serves the rest.
  def test_long_requests_do_not_take_the_last_thread
    start("-t", "3")
    learn
    reports = Array.new(12) { open_request("/report") }
    20.times { |i| assert_equal "200", @server.get("/short/#{i}").code }
    done = @server.get("/order").body.split.count("/report") - LEARNT
    assert_operator done, :<, 6, "of 12 reports that came before; in their turn the short ones would have waited for 10"
    reports.each { |socket| assert_equal 200, Wire.response(socket).status }
  end

  # All came while the only thread was held.
  def test_the_shortest_expected_goes_first
    start("-t", "1")
    learn
    held = hold
    waiting = queue_requests("/report", "/1", "/2")
    held.gate.open
    [held.socket, *waiting].each { |socket| assert_equal 200, Wire.response(socket).status }
    assert_equal %w[/hold /1 /2 /report], @server.get("/order").body.split.last(4)
  end

  def test_nothing_waits_while_a_thread_of_any_worker_is_idle
    start("-w", "2", "-t", "2")
    held = Array.new(3) { |i| hold("hold#{i}") }
    @server.connect do |socket|
      20.times do
        socket.write("GET /quick HTTP/1.1\r\nHost: test\r\n\r\n")
        assert_equal 200, Wire.response(socket).status
      end
    end
    held.each { |one| one.gate.open }
    held.each { |one| assert_equal 200, Wire.response(one.socket).status }
  end

  def test_requests_are_spread_over_the_workers
    start("-w", "2", "-t", "3")
    held = Array.new(4) { |i| hold("hold#{i}") }
    assert_equal [2, 2], held.map(&:pid).tally.values
    held.each { |one| one.gate.open }
    assert_equal held.map(&:pid), held.map { |one| Wire.response(one.socket).body }
  end

  def test_a_full_queue_refuses_at_once
    start("-t", "1", "--queue-max", "2", files: { "public/503.html" => "<p>come back later</p>" })
    held = hold
    waiting = queue_requests("/1", "/2")
    refused = Wire.response(open_request("/3", "Accept: text/plain"))
    assert_equal [503, "1", "text/plain; charset=utf-8"], [refused.status, refused["retry-after"], refused["content-type"]]
    assert_includes refused.body, "busy"
    assert_equal "<p>come back later</p>", Wire.response(open_request("/4", "Accept: text/html")).body
    @server.wait_for(%r{"GET /3 HTTP/1.1" 503 .* note="queue full"})
    held.gate.open
    [held.socket, *waiting].each { |socket| assert_equal 200, Wire.response(socket).status }
    assert_equal "/hold /1 /2", @server.get("/order").body
  end

  def test_a_request_that_waited_too_long_is_refused
    start("-t", "1", "--queue-timeout", "1s")
    held = hold
    refused = Wire.response(open_request("/late"))
    assert_equal [503, "1"], [refused.status, refused["retry-after"]]
    @server.wait_for(%r{"GET /late HTTP/1.1" 503 .* note="waited too long for a worker"})
    held.gate.open
    assert_equal 200, Wire.response(held.socket).status
    assert_equal "/hold", @server.get("/order").body
  end
end
