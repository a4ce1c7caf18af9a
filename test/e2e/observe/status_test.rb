# What the server tells of itself: `paceline status`, and the statistics under Puma's names.
require_relative "../support/scenario"
require_relative "../support/asking"

class StatusTest < Minitest::Test
  include Scenario
  include Asking

  APP = <<~'RUBY'
    run lambda { |env|
      File.read(env["HTTP_X_BARRIER"]) if env["HTTP_X_BARRIER"]
      case env["PATH_INFO"]
      when "/broken" then raise "broken"
      when "/kept" then [200, { "cache-control" => "max-age=60" }, ["kept"]]
      when "/cut"
        [200, {}, Enumerator.new { |body| body << "x" * 100; File.read(env["HTTP_X_SECOND"]); 100.times { body << "y" * 65536 } }]
      else [200, {}, ["hello"]]
      end
    }
  RUBY

  def serve_app(*arguments, files: {}, **options)
    serve(app({ "config.ru" => APP, "public/file.txt" => "a file" }.merge(files)), "-w", "2", "-t", "3", *arguments, **options)
  end

  def site(server) = command_json(server, "status", "--json")["sites"].values.first

  # The counts once as many requests are in them: a request is counted when its last byte is on its way.
  def counts(server, requests)
    eventually("#{requests} requests to be counted") { (told = site(server)["counts"])["requests"] == requests && told }
  end

  def test_requests_by_status_and_by_who_answered
    server = serve_app
    %w[/ / /broken /file.txt /kept /kept /kept].each { |path| server.get(path) }
    counts = counts(server, 7)
    assert_equal({ "1xx" => 0, "2xx" => 6, "3xx" => 0, "4xx" => 0, "5xx" => 1 }, counts["status"])
    assert_equal({ "front" => 0, "static" => 1, "cache" => 2, "app" => 4, "upstream" => 0 }, counts["kind"])
    assert_operator counts["bytes"], :>=, "hello".size * 2 + "a file".size + "kept".size * 3
    assert_equal 0, counts["aborted"]
    lately = site(server)["lately"]
    assert_equal [7, 4, 4], [lately["requests"], lately["app_ms"]["count"], lately["queue_ms"]["count"]]
  end

  def test_without_an_access_log_the_same_is_counted
    server = serve_app("--access-log", "off")
    %w[/ /broken /file.txt /kept /kept].each { |path| server.get(path) }
    server.exchange("HEAD /file.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    counts = counts(server, 6)
    assert_equal [2, 1, 3, 0], [*counts["kind"].values_at("static", "cache", "app"), counts["aborted"]]
  end

  def test_clients_that_left
    server = serve_app
    barrier, second = barrier(server.dir), barrier(server.dir, "second")
    server.connect do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: a\r\nX-Barrier: #{barrier.path}\r\n\r\n")
      eventually("the app to have it") { site(server)["queue"]["busy"] == 1 }
    end
    counts = counts(server, 1)
    assert_equal [1, 1], [counts["aborted"], counts["status"]["4xx"]], "499, before there was an answer"
    barrier.open
    server.connect do |socket|
      socket.write("GET /cut HTTP/1.1\r\nHost: a\r\nX-Second: #{second.path}\r\n\r\n")
      socket.readpartial(100)
    end
    second.open
    counts = counts(server, 2)
    assert_equal [2, 1], [counts["aborted"], counts["status"]["2xx"]], "in the midst of the answer"
  end

  def test_under_pumas_names
    server = serve_app
    barrier = barrier(server.dir)
    waiting = Thread.new { server.get("/", "X-Barrier" => barrier.path) }
    eventually("the app to have it") { site(server)["queue"]["busy"] == 1 }
    stats = control_json(server, "/stats")
    assert_equal [2, 2, 0, 1], stats.values_at("workers", "booted_workers", "old_workers", "phase")
    assert_match(/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\z/, stats["started_at"])
    workers = stats["worker_status"]
    assert_equal server.workers.sort, workers.map { |worker| worker["pid"] }.sort
    assert_equal [[1, 1, true], [2, 1, true]], workers.map { |worker| worker.values_at("index", "phase", "booted") }
    last = workers.map { |worker| worker["last_status"] }
    assert_equal %w[backlog running pool_capacity busy_threads max_threads requests_count].sort, last.first.keys.sort
    assert_equal [1, 5, 6], %w[busy_threads pool_capacity max_threads].map { |name| last.sum { |status| status[name] } }
    barrier.open
    waiting.join
    told = command_json(server, "status", "--json")
    assert_equal stats.slice("started_at", "workers", "phase"), told.slice("started_at", "workers", "phase")
    assert_equal 1, told["worker_status"].sum { |worker| worker["last_status"]["requests_count"] }
  end

  def test_a_page_for_people
    server = serve_app
    server.get("/")
    server.get("/broken")
    counts(server, 2)
    out, status = command(server, "status")
    assert_equal 0, status, out
    assert_match(/\Apaceline \d+\.\d+\.\d+, pid #{server.pid}, up \d+ s, ready; \d+ connections?, 0 requests in progress$/, out)
    assert_match(/^#{File.basename(server.dir)}: ready, generation 1, ruby [^,]+, rack [^,]+, development$/, out)
    assert_match(/^  requests +2 +2$/, out)
    assert_match(/^  5xx +50\.0 % +50\.0 %$/, out)
    assert_match(/^ +1 +#{server.workers.min} +1 +\d+ s +\d +0\/3$/, out)
    refute_match(/replaced/, out)

    Process.kill(:KILL, server.workers.first)
    server.wait_for(/killed by signal|SIGKILL|signal 9/)
    eventually("it to be told") { command(server, "status").first.include?("workers replaced: 1 (crash)") }
  end

  def test_an_app_that_does_not_start
    server = serve_app(files: { "config.ru" => "raise 'not today'" }, ready: false)
    server.get("/")
    out, status = command(server, "status")
    assert_equal 0, status
    assert_match(/: failed, development$/, out)
    assert_match(/^  \S+ did not start \(boot\): .*not today/, out)
    assert_equal "failed", site(server)["app"]["state"]
  end

  def test_no_server
    dir = app("config.ru" => APP)
    out, status = command(Struct.new(:dir).new(dir), "status")
    assert_equal [1, true], [status, out.include?("no server answers at tmp/paceline.sock")], out
  end
end
