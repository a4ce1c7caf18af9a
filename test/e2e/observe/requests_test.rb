# The requests under way: `paceline requests`, and where the Ruby thread is that has one.
require_relative "../support/scenario"
require_relative "../support/asking"

class RequestsTest < Minitest::Test
  include Scenario
  include Asking

  APP = <<~'RUBY'
    def sit(path) = File.read(path)
    run lambda { |env|
      env["rack.input"]&.read
      path = env["HTTP_X_BARRIER"]
      case env["PATH_INFO"]
      when "/stream" then [200, {}, Enumerator.new { |body| body << "first"; sit(path); body << "last" }]
      when "/after" then (env["rack.after_reply"] ||= []) << -> { sit(path) }; [200, {}, ["hello"]]
      else
        sit(path) if path
        [200, { "cache-control" => "max-age=60" }, ["hello"]]
      end
    }
  RUBY

  def serve_app(*arguments, **options) = serve(app("config.ru" => APP), "-w", "1", "-t", "1", *arguments, **options)

  def requests(server) = control_json(server, "/requests")["requests"]

  # The only request, once it is at this step.
  def at(server, step, client = "waits")
    eventually("a request at #{step}, client #{client}") do
      requests(server).find { |one| one.values_at("step", "client_is") == [step, client] }
    end
  end

  def test_from_step_to_step
    server = serve_app
    barrier = barrier(server.dir)
    server.connect do |socket|
      socket.write("POST /orders/17?x=1 HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine-1\r\nX-Barrier: #{barrier.path}\r\nContent-Length: 4\r\n\r\nab")
      reading = at(server, "reading-body")
      assert_equal ["mine-1", "POST", "/orders/17?x=1", "POST /orders/*", "127.0.0.1", nil], reading.values_at("id", "method", "target", "route", "client", "worker")
      socket.write("cd")
      in_app = at(server, "app")
      assert_equal [reading["number"], { "index" => 1, "pid" => server.workers.first, "thread" => 1, "generation" => 1 }], in_app.values_at("number", "worker")
      assert_operator in_app["age"], :>=, in_app["step_age"]
      waiting = Thread.new { server.get("/queued", "X-Barrier" => barrier.path) }
      assert_equal "GET /queued", at(server, "queued").values_at("method", "target").join(" ")
      assert_equal %w[app queued], requests(server).map { |one| one["step"] }, "the oldest first"
      barrier.open
      assert_match(/200 OK/, socket.readpartial(4096))
      at(server, "app")
      barrier.open
      waiting.join
    end
    eventually("both to be gone") { requests(server).empty? }
    server.get("/kept")
    server.get("/kept")
    assert_empty requests(server)
  end

  def test_what_the_app_still_does
    server = serve_app
    barrier = barrier(server.dir)
    server.connect do |socket|
      socket.write("GET /stream HTTP/1.1\r\nHost: a\r\nX-Barrier: #{barrier.path}\r\n\r\n")
      socket.readpartial(4096) until at(server, "sending")
      assert_equal 1, at(server, "sending")["worker"]["thread"]
    end
    left = at(server, "sending", "gone")
    assert_equal 1, left["worker"]["thread"], "its thread does not know yet"
    barrier.open
    eventually("it to be gone") { requests(server).empty? }

    assert_equal "hello", server.get("/after", "X-Barrier" => barrier.path).body
    assert_equal 1, at(server, "sending", "answered")["worker"]["thread"]
    assert_match(/^ +\d+ +\S+ m?s +after the reply +\S+ m?s +1\.1 +127\.0\.0\.1 +GET \/after$/, command(server, "requests").first)
    barrier.open
    eventually("it to be gone") { requests(server).empty? }
  end

  def test_the_backtrace_of_one
    server = serve_app
    barrier = barrier(server.dir)
    waiting = Thread.new { server.get("/slow", "X-Barrier" => barrier.path) }
    number = at(server, "app")["number"]
    eventually("it to sit") { control_json(server, "/requests/#{number}/backtrace")["backtrace"].to_s.include?("read") }
    out, status = command(server, "requests", "--backtrace", number.to_s)
    assert_equal 0, status, out
    assert_match(/\AGET \/slow, \S+ m?s old, app: #{File.basename(server.dir)}\.1, pid #{server.workers.first}, thread 1\n/, out)
    # From Ruby 3.4 on with other quotes.
    assert_match(/^    \S+config\.ru:1:in ['`](?:Object#)?sit'$/, out)
    refute_match(/is here:/, server.output, "who asks is told, not the log")
    assert_equal "GET /slow", command_json(server, "requests", "--json", "--backtrace", number.to_s).values_at("method", "target").join(" ")
    barrier.open
    waiting.join
    out, status = command(server, "requests", "--backtrace", number.to_s)
    assert_equal [1, "paceline: no request #{number} is in progress: it may have ended\n"], [status, out]
    assert_equal [400, 404], [control(server, "/requests/x/backtrace").first, control(server, "/requests//backtrace").first]
  end

  def test_one_that_no_thread_has
    server = serve_app
    server.connect do |socket|
      socket.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab")
      number = at(server, "reading-body")["number"]
      out, status = command(server, "requests", "--backtrace", number.to_s)
      assert_equal [1, %(paceline: no Ruby thread has request #{number}: it is at the step "reading-body"\n)], [status, out]
    end
  end

  def test_watching
    server = serve_app
    barrier = barrier(server.dir)
    IO.popen([Asking::OWN.merge(AS_ROOT), BIN, "requests", "--watch", "--json", { chdir: server.dir }]) do |watching|
      line = -> { Timeout.timeout(PATIENCE) { JSON.parse(watching.gets)["requests"] } }
      assert_empty line.call
      waiting = Thread.new { server.get("/slow", "X-Barrier" => barrier.path) }
      eventually("it to be seen") { line.call.any? { |one| one["target"] == "/slow" } }
      barrier.open
      waiting.join
      eventually("it to be gone") { line.call.empty? }
      Process.kill(:TERM, watching.pid)
    end
    assert_equal ["no requests in progress\n", 0], command(server, "requests")
  end
end
