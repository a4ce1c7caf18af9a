# Streams leave the count of threads (`stream_threads`), and so does what runs after the reply for long: pages have all their threads meanwhile.
require_relative "../support/asking"
require_relative "../support/scenario"
require_relative "../support/wire"

class StreamsTest < Minitest::Test
  include Scenario
  include Asking

  # An open stream waits for one element of ENDS.
  APP = <<~'RUBY'
    ENDS = Queue.new
    def events = Enumerator.new { |out| out << "data: first\n\n"; ENDS.pop; out << "data: last\n\n" }
    def echo(io)
      io.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
      line = io.gets and io.write(line)
      io.read
    ensure
      io.close
    end
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/events" then [200, { "content-type" => "text/event-stream" }, events]
      when "/callable" then [200, {}, ->(stream) { stream << "data: first\n\n"; stream.flush; ENDS.pop; stream << "data: last\n\n" }]
      when "/plain-each" then [200, {}, events]
      when "/ticks" then [200, { "content-type" => "text/event-stream" }, Enumerator.new { |out| loop { out << "data: tick\n\n"; sleep 0.01 } }]
      when "/held-stream" then [200, { "content-type" => "text/event-stream" }, Enumerator.new { |out| out << "data: first\n\n"; out << File.read("end") }]
      when "/full" then echo(env["rack.hijack"].call) && [-1, {}, []]
      when "/partial" then [101, { "connection" => "Upgrade", "upgrade" => "echo" }, ->(io) { io.write("first\n"); io.read; io.close }]
      when "/end" then Integer(env["QUERY_STRING"]).times { ENDS << 1 } && [200, {}, ["ended"]]
      when "/late-events" then File.read("begin") && [200, { "content-type" => "text/event-stream" }, events]
      when "/meet" then [200, {}, [File.read(env["QUERY_STRING"])]]
      when "/after" then (env["rack.after_reply"] ||= []) << -> { File.read(env["QUERY_STRING"]) }; [200, {}, ["replied"]]
      else [200, {}, ["#{Process.pid}"]]
      end
    end)
  RUBY
  UPGRADE = ["Connection: Upgrade", "Upgrade: echo"].freeze

  def start(*arguments, settings: "", threads: 2)
    @server = serve(@dir = app("config.ru" => APP, "paceline.toml" => settings), "-w", "1", "-t", threads.to_s, *arguments)
  end

  # A connection with a stream whose first event has come.
  def stream(path = "/events", first = "data: first\n\n")
    open_request(path).tap do |socket|
      assert_equal 200, Wire.head(socket).status
      assert_equal first, Wire.chunk(socket)
    end
  end

  def assert_ends(socket)
    assert_equal ["data: last\n\n", nil], Timeout.timeout(PATIENCE) { [Wire.chunk(socket), Wire.chunk(socket)] }
  end

  def assert_state(figures)
    eventually("the state #{figures}, last seen: #{@server.state}") { @server.state.slice(*figures.keys) == figures }
  end

  # Threads of the worker that take requests.
  def worker_threads(pid = @server.workers.first)
    Dir["/proc/#{pid}/task/*/comm"].count { |path| File.read(path).match?(/\Apaceline \d+$/) rescue false }
  end

  # Two pages are in the application at the same time.
  def assert_two_pages_at_once
    gates = %w[one two].map { |name| barrier(@dir, name) }
    pages = %w[one two].map { |name| Thread.new { @server.get("/meet?#{name}").body } }
    # Opening waits for the reader.
    gates.reverse_each(&:open)
    assert_equal %w[go go], pages.map(&:value)
    gates.each { |gate| File.delete(gate.path) }
  end

  def test_pages_have_all_threads_beside_twenty_streams
    start
    streams = Array.new(20) { stream }
    assert_state(idle: 2, busy: 0, streams: 20)
    assert_equal 22, worker_threads
    assert_two_pages_at_once
    figures = control(@server, "/metrics")[1]
    assert_match(/^paceline_worker_threads\{site="[^"]+",state="stream"\} 20$/, figures)
    assert_match(%r{ 0/2, 20 streams$}, command(@server, "status").first)
    assert_equal "ended", @server.get("/end?20").body
    streams.each { |socket| assert_ends(socket) }
    assert_state(idle: 2, busy: 0, streams: 0)
    eventually("two threads") { worker_threads == 2 }
    assert_two_pages_at_once
  end

  def test_a_callable_body_is_a_stream_and_a_body_that_is_read_piece_by_piece_is_none
    start
    callable, each = stream("/callable"), stream("/plain-each")
    assert_state(idle: 1, busy: 1, streams: 1)
    @server.get("/end?2")
    [callable, each].each { |socket| assert_ends(socket) }
    assert_state(idle: 2, busy: 0, streams: 0)
  end

  def test_beyond_the_bound_streams_hold_threads_and_leave_the_count_when_another_ends
    start(settings: "stream_threads = 1\n")
    ends = barrier(@dir, "end")
    stream("/held-stream")
    assert_state(idle: 2, busy: 0, streams: 1)
    streams = Array.new(2) { stream }
    assert_state(idle: 0, busy: 2, streams: 1)
    assert_equal 1, @server.output.scan("a worker has 1 streams, as many as stream_threads allows").size
    page = Thread.new { @server.get("/").body }
    assert_state(waiting: 1)
    ends.open
    assert_equal @server.workers.first.to_s, Timeout.timeout(PATIENCE) { page.value }
    assert_state(idle: 1, busy: 1, streams: 1)
    @server.get("/end?2")
    streams.each { |socket| assert_ends(socket) }
    assert_state(idle: 2, busy: 0, streams: 0)
    eventually("two threads") { worker_threads == 2 }
  end

  REFORKED = /is reforked from worker 1 \(pid (\d+)\) after \d+ requests: /

  def test_a_refork_waits_for_a_worker_without_streams
    start("--refork-after", "5")
    socket = stream
    10.times { @server.get("/") }
    @server.wait_for(/ is not reforked yet: it waits for a worker without streams that has answered enough$/)
    assert_two_pages_at_once
    worker = @server.workers.first
    @server.get("/end?1")
    assert_ends(socket)
    assert_equal worker.to_s, @server.wait_for(REFORKED)[1]
  end

  def test_a_stream_that_begins_in_a_worker_that_is_to_be_a_mold_leaves_the_count
    start("--refork-after", "5", "--drain-timeout", "1s")
    begins = barrier(@dir, "begin")
    late = open_request("/late-events")
    worker = @server.workers.first
    # Its stand-in answers when the worker gets nothing more.
    eventually("the stand-in") { @server.get("/").body.to_i != worker }
    begins.open
    Wire.head(late)
    assert_equal "data: first\n\n", Wire.chunk(late)
    @server.wait_for(/\.1 is not reforked from yet, and goes on serving: \d of its threads (is|are) still in a request or a stream$/)
    eventually("the stand-in to go") { @server.workers == [worker] }
    assert_state(idle: 2, busy: 0, streams: 1)
    assert_two_pages_at_once
    @server.get("/end?1")
    assert_ends(late)
    assert_equal worker.to_s, @server.wait_for(REFORKED)[1]
  end

  def test_a_client_that_leaves_ends_its_stream_s_thread
    start(threads: 1, settings: "stream_threads = 5\n")
    socket = stream("/ticks", "data: tick\n\n")
    assert_state(idle: 1, busy: 0, streams: 1)
    socket.close
    assert_state(idle: 1, busy: 0, streams: 0)
    eventually("one thread") { worker_threads == 1 }
  end

  def test_with_one_thread_nothing_runs_beside_it_unless_that_is_asked_for
    start(threads: 1)
    socket = stream
    assert_state(idle: 0, busy: 1, streams: 0)
    socket.close
  end

  def test_a_restart_leaves_the_streams_of_the_worker_before_their_time
    start
    ends = barrier(@dir, "end")
    socket = stream("/held-stream")
    before = @server.get("/").body
    @server.signal(:USR1)
    after = eventually("another worker") { @server.get("/").body.then { |pid| pid unless pid == before } }
    assert_includes @server.workers, Integer(before)
    assert_state(idle: 2, busy: 0)
    ends.open
    assert_equal ["go", nil], [Wire.chunk(socket), Wire.chunk(socket)]
    eventually("the first worker's end") { @server.workers == [Integer(after)] }
  end

  def test_a_hijack_whose_thread_stays_in_the_app_is_a_stream
    start(threads: 1, settings: "stream_threads = 5\n")
    %w[/full /partial].each do |path|
      socket = open_request(path, *UPGRADE)
      assert_equal 101, Wire.head(socket).status
      assert_state(idle: 1, busy: 0, streams: 1)
      assert_equal @server.workers, [@server.get("/").body.to_i]
      socket.close
      assert_state(idle: 1, busy: 0, streams: 0)
      eventually("one thread") { worker_threads == 1 }
    end
  end

  def test_what_runs_after_the_reply_holds_its_thread_for_a_moment_only
    start(threads: 1, settings: "stream_threads = 1\nafter_reply_hold = \"50ms\"\n")
    gates = %w[one two].map { |name| barrier(@dir, name) }
    assert_equal "replied", @server.get("/after?one").body
    assert_equal "replied", @server.get("/after?two").body
    page = Thread.new { @server.get("/").body }
    # One has left the count; the other holds the thread.
    assert_state(waiting: 1, idle: 0, busy: 1, streams: 1)
    assert_match(/ after the reply +\S+ m?s +1\.\d +127\.0\.0\.1 +GET \/after\?one$/, command(@server, "requests").first)
    gates.first.open
    assert_equal @server.workers.first.to_s, Timeout.timeout(PATIENCE) { page.value }
    assert_state(idle: 1, busy: 0, streams: 1)
    gates.last.open
    assert_state(idle: 1, busy: 0, streams: 0)
  end
end
