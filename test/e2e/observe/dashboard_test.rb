# The dashboard as programs see it: its page, what it loads, and the stream that keeps it up to date.
require_relative "../support/scenario"
require_relative "../support/control"
require_relative "../support/dashboard_pages"

class DashboardTest < Minitest::Test
  include Scenario
  include Control
  include DashboardPages

  APP = <<~RUBY.freeze
    run(lambda do |env|
      File.read("barrier") if env["PATH_INFO"].start_with?("/wait")
      raise "no such luck" if env["PATH_INFO"] == "/raise"
      next [503, { "content-type" => "text/plain" }, ["busy"]] if env["PATH_INFO"] == "/busy"
      [200, { "content-type" => "text/plain" }, ["ok"]]
    end)
  RUBY

  def test_the_page_shows_the_site_its_workers_and_loads_only_its_own
    server = serve(app("config.ru" => APP), "-w", "2", "--control-url", "tcp://127.0.0.1:0")
    page = eventually("both workers with their memory, and the look after the app was ready") do
      html = fetch(server, "/")
      html if html.include?("badge ready\">ready</b> <strong>") && html =~ /worker 1 · g1.* MB/ && html =~ /worker 2 · g1.* MB/
    end
    assert_match(/<b class="badge ready">ready<\/b> <strong>#{File.basename(server.dir)}</, page)
    assert_equal %w[/dashboard.css /dashboard.js /icon.svg], page.scan(/(?:\bsrc|<link[^>]*\bhref)="?([^" >]+)/).flatten.sort
    %w[/dashboard.css /dashboard.js /icon.svg].each { |path| assert_equal "200", Net::HTTP.get_response(URI("http://127.0.0.1:#{port(server)}#{path}")).code }
    refute_match(/ style=|<script>| on\w+=/, page)
  end

  def test_the_stream_tells_of_requests_under_way_and_of_what_went_wrong
    dir = app("config.ru" => APP)
    gate = barrier(dir)
    server = serve(dir, "-w", "1", "--control-url", "tcp://127.0.0.1:0")
    asking = Thread.new { server.get("/wait/%3Cb%3E") }
    watch(server, "/events") do |events|
      eventually_in(events) { |parts| parts["live"]&.include?("GET /wait/%3Cb%3E") }
      server.workers.each { |pid| Process.kill(:KILL, pid) }
      eventually_in(events) { |parts| parts["incidents"]&.match?(/href="\/incidents\/\h{8}".*worker-died/) }
      eventually_in(events) { |parts| parts["requests"]&.include?("class=\"mark incident\"") }
    end
    gate.open
    asking.value
  end

  def test_requests_that_fail_have_a_page_with_the_exception
    server = serve(app("config.ru" => APP), "-w", "1", "-e", "production", "--control-url", "tcp://127.0.0.1:0")
    3.times { |n| assert_equal "500", server.get("/raise?secret=1", "X-Request-Id" => "number-#{n}").code }
    assert_equal "503", server.get("/busy").code
    busy, raised = control(server, "/errors")["errors"]
    assert_equal [1, 503, "GET", "/busy", ""], busy.values_at("times", "status", "method", "path", "class")
    assert_equal [3, 500, "/raise", "RuntimeError", "no such luck", "number-2"], raised.values_at("times", "status", "path", "class", "message", "request")
    page = fetch(server, "/errors/#{raised["id"]}", "Accept" => "text/html")
    ["RuntimeError", "no such luck", "config.ru:3", "number-2"].each { |part| assert_includes page, part }
    refute_includes page, "secret"
    overview = fetch(server, "/")
    assert_match(/href="\/errors\/#{raised["id"]}".*RuntimeError: no such luck \(GET \/raise\).*3 times/, overview)
    # An incident is the same there and in the terminal, and this is none.
    assert_includes overview, "No incidents."
    table, = command(server.dir, "incidents")
    assert_match(/\ANo incidents\.\n\nRequests that failed in the application:\n.*^#{raised["id"]}  .*RuntimeError: no such luck \(GET \/raise\) \(3 times\)$/m, table)
    assert_match(/RuntimeError: no such luck.*^Backtrace\n.*config\.ru:3/m, command(server.dir, "incidents", raised["id"])[0])
    assert_equal "404", Net::HTTP.get_response(URI("http://127.0.0.1:#{port(server)}/errors/ffffffff")).code
  end

  def test_who_watches_takes_a_place_and_gives_it_back
    server = serve(app("config.ru" => APP), "-w", "1", "--control-url", "tcp://127.0.0.1:0")
    watching = Array.new(16) { open_stream(server) }
    watching.each { |stream| assert_includes stream.gets, "200 OK" }
    assert_equal "503", Net::HTTP.get_response(URI("http://127.0.0.1:#{port(server)}/events")).code
    watching.shift.close
    eventually("a free place") { open_stream(server).then { |stream| stream.gets.include?("200 OK") } }
    # The socket answers all the while.
    assert_equal 0, control(server, "/incidents")["count"]
  ensure
    Array(watching).each(&:close)
  end

  # A page of another site can't read the stream, and takes no place among those who watch.
  def test_the_stream_is_not_for_pages_of_other_sites
    server = serve(app("config.ru" => APP), "-w", "1", "--control-url", "tcp://127.0.0.1:0")
    streams = ["https://evil.example", "http://localhost:1", "null", "garbage"].flat_map { |origin| Array.new(16) { open_stream(server, "Origin: #{origin}\r\n") } }
    assert_equal ["HTTP/1.1 403 Forbidden\r\n"], streams.map(&:gets).uniq
    open_stream(server, "Origin: http://localhost\r\n").then { |stream| assert_includes stream.gets, "200 OK" }
  ensure
    streams&.each(&:close)
  end

  # Frames of WebSocket among it, although there is none here.
  def test_garbage_on_its_address_disturbs_nobody
    server = serve(app("config.ru" => APP), "-w", "1", "--control-url", "tcp://127.0.0.1:0")
    garbage = ["\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff" * 1000, "\0" * 1_000_000, "GET /events HTTP/1.1\r\nX: #{"x" * 1_000_000}",
      "GET /events HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n\x81\x05hello",
      "POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n#{"x" * 100_000}", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    held = garbage.flat_map do |bytes|
      Array.new(8) { TCPSocket.new("127.0.0.1", port(server)).tap { |socket| socket.write_nonblock(bytes) rescue nil } }
    end
    held.each do |socket|
      Timeout.timeout(PATIENCE) { refute_match(/\AHTTP\/1.1 101/, socket.readpartial(100)) }
    rescue SystemCallError, EOFError
      nil
    end
    held.each(&:close)
    assert_includes fetch(server, "/"), "<title>#{File.basename(server.dir)}"
    assert_equal "200", server.get("/").code
  end

  # More than are served at a time, and they say nothing.
  def test_silent_connections_give_way
    server = serve(app("config.ru" => APP), "-w", "1", "--control-url", "tcp://127.0.0.1:0")
    silent = Array.new(64) { TCPSocket.new("127.0.0.1", port(server)) }
    assert_includes fetch(server, "/"), "<title>#{File.basename(server.dir)}"
    assert_equal 0, control(server, "/incidents")["count"]
  ensure
    silent&.each(&:close)
  end

  def test_a_site_can_be_looked_at_alone
    dir = app("one/config.ru" => APP, "two/config.ru" => APP)
    write(dir, "paceline.toml" => "control_url = \"tcp://127.0.0.1:0\"\n[[site]]\nname = \"one\"\nroot = \"one\"\nhost = \"one.test\"\n[[site]]\nname = \"two\"\nroot = \"two\"\nhost = \"two.test\"\n")
    server = serve(dir)
    server.wait_for(/two is ready/)
    both, two = eventually("both workers") do
      pages = ["/", "/?site=two"].map { |path| fetch(server, path) }
      pages if pages.first.include?("one worker 1") && pages.first.include?("two worker 1")
    end
    assert_includes both, "<a href=\"/?site=two\">two</a>"
    refute_includes two[/<div id="workers">.*?<\/div>/m], "one worker"
    assert_includes two, "data-events=\"/events?site=two\""
  end

  private

  def open_stream(server, fields = "")
    socket = TCPSocket.new("127.0.0.1", port(server))
    socket.write("GET /events HTTP/1.1\r\nHost: localhost\r\n#{fields}\r\n")
    socket
  end

  # Yields a queue of what each event says.
  def watch(server, path)
    events = Queue.new
    reading = Thread.new do
      Net::HTTP.start("127.0.0.1", port(server), read_timeout: PATIENCE) do |http|
        http.request(Net::HTTP::Get.new(path)) do |answer|
          rest = +""
          answer.read_body do |bytes|
            rest << bytes
            while (event = rest.slice!(/\A.*?\n\n/m))
              events << JSON.parse(event.delete_prefix("data: "))
            end
          end
        end
      end
    end
    yield events
  ensure
    reading&.kill
  end

  def eventually_in(events)
    Timeout.timeout(PATIENCE) { nil until yield events.pop }
  end
end
