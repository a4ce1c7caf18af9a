# Responses that take their time: server-sent events, early hints, callbacks, clients that leave or do not read.
require_relative "../support/rack_routes"
require_relative "../support/scenario"
require_relative "../support/wire"

class StreamingTest < Minitest::Test
  include Scenario
  include RackRoutes

  rack_setup <<~'RUBY'
    require "timeout"
    CLOSED = Hash.new(0)
    CALLS = Hash.new(0)
    class Events
      def initialize(name, &each) = (@name, @each = name, each)
      def each(&block) = @each.call(block)
      def close
        CLOSED[@name] += 1
        File.write("closed", @name) if File.exist?("closed")
      end
    end
    TEXT = { "content-type" => "text/plain" }.freeze
    SSE = { "content-type" => "text/event-stream", "cache-control" => "no-cache" }.freeze
    # What a body does whose client leaves: says so to the test.
    def endless
      yield "data: first\n\n"
      File.read("barrier")
      loop { yield "data: more\n\n" }
    rescue IOError => e
      File.write("noticed", e.class.name)
      raise
    end
  RUBY

  rack { [200, TEXT.dup, ["plain"]] }
  rack("/closed") { |env| [200, TEXT.dup, [CLOSED[env["QUERY_STRING"]].to_s]] }

  def start(...)
    super
    @gate = barrier(@dir)
  end

  def assert_serves = assert_equal("plain", @server.get("/").body)

  rack("/events") { [200, SSE.dup, Events.new("events") { |send| 3.times { |i| send.call("data: #{i}\n\n"); File.read("barrier") } }] }
  rack("/bare/callable") { [200, SSE.dup, ->(stream) { 3.times { |i| stream.write("data: #{i}\n\n"); File.read("barrier") }; stream.close }] }

  def test_each_chunk_arrives_before_the_next_is_made
    start
    %w[/events /bare/callable].each do |path|
      socket = open_request(path)
      assert_equal "chunked", Wire.head(socket)["transfer-encoding"]
      3.times do |i|
        assert_equal "data: #{i}\n\n", Wire.chunk(socket)
        @gate.open
      end
      assert_nil Wire.chunk(socket)
    end
    assert_equal "1", @server.get("/closed?events").body
  end

  rack("/endless") { [200, SSE.dup, Events.new("endless") { |send| endless { |piece| send.call(piece) } }] }
  rack("/bare/endless_callable") { [200, SSE.dup, ->(stream) { endless { |piece| stream.write(piece) } }] }

  def test_a_client_that_is_gone_is_noticed_at_the_next_write
    start
    noticed, closed = barrier(@dir, "noticed"), barrier(@dir, "closed")
    %w[/endless /bare/endless_callable].each do |path|
      socket = open_request(path)
      Wire.head(socket)
      assert_equal "data: first\n\n", Wire.chunk(socket)
      socket.close
      @gate.open
      assert_equal "Paceline::ClientGone", noticed.wait
      assert_equal "endless", closed.wait if path == "/endless"
      assert_serves
      @server.wait_for(%r{"GET #{path} HTTP/1.1" 200 \d+ .* cut=1})
    end
    assert_equal "1", @server.get("/closed?endless").body
    refute_match(/ClientGone/, @server.output, "a client that leaves is no error of the app")
  end

  rack("/waits") { File.write("entered", "x"); File.read("barrier"); [200, TEXT.dup, ["waited"]] }
  rack("/counted") { |env| CALLS[env["PATH_INFO"]] += 1; [200, TEXT.dup, ["counted"]] }
  rack("/calls") { |env| [200, TEXT.dup, [CALLS[env["QUERY_STRING"]].to_s]] }

  def test_a_client_gone_while_it_waits_for_a_thread_never_reaches_ruby
    start
    entered = barrier(@dir, "entered")
    holding = open_request("/waits")
    entered.wait
    leaving = open_request("/counted")
    eventually("it in the queue") { @server.signal(:PWR) && @server.output.include?(" waiting=1 ") }
    leaving.close
    @server.wait_for(%r{"GET /counted HTTP/1.1" 499 0 .* cut=1})
    @gate.open
    assert_equal "waited", Wire.response(holding).body
    assert_equal "0", @server.get("/calls?/counted").body
  end

  rack("/bare/large") { [200, TEXT.dup, Array.new(20) { "x" * (1 << 20) }] }
  rack("/large_each") { [200, TEXT.dup, Events.new("large") { |send| 320.times { send.call("x" * (1 << 16)) } }] }
  rack("/bare/large_file") do
    body = Events.new("file") {}
    def body.to_path = File.expand_path("large.bin")
    [200, TEXT.dup, body]
  end

  def test_a_client_that_reads_nothing_holds_no_thread
    start
    large = "x" * (20 << 20)
    File.write(File.join(@dir, "large.bin"), large)
    %w[/bare/large /large_each /bare/large_file].each do |path|
      before = @server.private_memory
      slow = open_request(path)
      Wire.head(slow)
      assert_serves
      taken = (@server.private_memory - before) / 1024
      assert_operator taken, :<, 10_000, "#{path}: the front takes #{taken} KB for a response of 20 MB"
      body = path == "/large_each" ? Array.new(320) { Wire.chunk(slow) }.join : slow.read(20 << 20)
      assert body == large, "#{path}: #{body.bytesize} bytes"
    end
  end

  # One who has read no more than the head of this page, and one who waits for the only thread: in so many seconds nothing comes.
  def held_up(path, seconds)
    start("--response-memory", "64KB", "--response-spool", "1MB")
    slow = open_request(path)
    Wire.head(slow)
    impatient = open_request("/")
    refute IO.select([impatient], nil, nil, seconds), "the thread was free although the response is neither read nor kept"
    [slow, impatient]
  end

  def test_a_worker_waits_when_memory_and_file_are_full
    slow, impatient = held_up("/large_each", 0.2)
    assert_equal 20 << 20, Array.new(320) { Wire.chunk(slow) }.sum(&:bytesize)
    assert_equal "plain", Wire.response(impatient).body
  end

  rack("/timed") do
    body = Events.new("timed") do |send|
      Timeout.timeout(0.3) { send.call("x" * (8 << 20)) }
    rescue Timeout::Error
      send.call("late")
    end
    [200, TEXT.dup, body]
  end

  # An application that gives up a client that takes nothing: what was begun to be sent is sent whole, or all that follows would be taken
  # for a part of it.
  def test_a_time_out_while_the_worker_waits_tears_no_chunk
    # The time-out passes meanwhile.
    slow, impatient = held_up("/timed", 1)
    body = +""
    Timeout.timeout(PATIENCE) do
      while (chunk = Wire.chunk(slow))
        body << chunk
      end
    end
    assert_match(/\Ax+late\z/, body)
    assert_equal "plain", Wire.response(impatient).body
  end

  rack("/hints") do |env|
    links = ["</a.css>; rel=preload", "</b.js>; rel=preload"]
    env["rack.early_hints"]&.call("link" => Rack.release < "3" ? links.join("\n") : links)
    File.read("barrier") if env["QUERY_STRING"] == "wait"
    [200, TEXT.dup, ["hinted"]]
  end

  def test_early_hints_come_first_and_at_once
    start("--early-hints")
    socket = open_request("/hints?wait")
    hints = Wire.response(socket)
    assert_equal ["HTTP/1.1 103 Early Hints", ["</a.css>; rel=preload", "</b.js>; rel=preload"]], [hints.line, hints.all("link")]
    @gate.open
    assert_equal [200, "hinted"], Wire.response(socket).then { |answer| [answer.status, answer.body] }
  end

  def test_http_1_0_gets_no_early_hints_nor_does_anybody_unless_they_are_on
    start("--early-hints")
    assert_equal "HTTP/1.0 200 OK", Wire.response(open_request("/hints", version: "1.0")).line
    @server.stop
    start
    assert_equal "HTTP/1.1 200 OK", Wire.response(open_request("/hints")).line
  end

  rack("/finished") do |env|
    env["rack.response_finished"]&.push(->(_env, status, _headers, error) { File.read("barrier"); File.write("told", "finished #{status} #{error.inspect}") })
    unless env["rack.response_finished"]
      env["rack.after_reply"] << -> { File.read("barrier"); File.write("told", "finished 200 nil") }
    end
    [200, TEXT.dup, Events.new("finished") { |send| send.call("reply") }]
  end
  rack("/after_reply") do |env|
    env["rack.after_reply"] << -> { raise "in a callback" } << -> { File.read("barrier"); File.write("told", "after reply") }
    [200, TEXT.dup, ["reply"]]
  end

  def test_callbacks_run_when_the_response_has_arrived_and_before_the_next_request
    start
    told = barrier(@dir, "told")
    { "/finished" => "finished 200 nil", "/after_reply" => "after reply" }.each do |path, words|
      assert_equal "reply", Wire.response(open_request(path)).body
      waiting = open_request("/")
      @gate.open
      assert_equal words, told.wait
      assert_equal "plain", Wire.response(waiting).body
    end
    @server.wait_for(/RuntimeError: in a callback/)
  end

  rack("/errors") do |env|
    env["rack.errors"].puts("said to rack.errors")
    warn "said to stderr"
    $stdout.puts "said to stdout"
    [200, TEXT.dup, ["said"]]
  end

  def test_what_the_app_prints_is_in_the_log_with_its_worker
    start
    assert_equal "said", @server.get("/errors").body
    ["rack.errors", "stderr", "stdout"].each { |name| @server.wait_for(/^\[\S+\.1\] said to #{name}$/) }
  end
end
