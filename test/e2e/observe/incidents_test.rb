# What went wrong with an application's processes is remembered, with the requests they had in hand, and outlives the server.
require_relative "../support/scenario"
require_relative "../support/control"

class IncidentsTest < Minitest::Test
  include Scenario
  include Control

  APP = <<~RUBY.freeze
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/die"
        warn "these are my last words"
        File.read("barrier") if File.exist?("barrier")
        Process.kill(:KILL, Process.pid)
        sleep
      when "/slow" then File.read("barrier")
      end
      [200, { "content-type" => "text/plain" }, ["ok"]]
    end)
  RUBY

  def test_a_crash_tells_the_request_the_exit_and_the_last_words
    server = serve(app("config.ru" => APP), "-w", "1")
    assert_equal "502", server.request(Net::HTTP::Post.new("/die?secret=1", "X-Request-Id" => "the-post")).code
    incident = eventually("the incident with its log") { settled(server, "worker-died") }
    assert_match(/\Aworker \S+\.1 \(pid \d+\) was killed by signal 9 \(KILL\)\z/, incident["what"])
    request = incident["requests"].first
    assert_equal ["the-post", "POST", "/die", "answered 502"], request.values_at("id", "method", "path", "outcome")
    assert_equal 1, incident.dig("process", "index")
    assert_equal 1, incident.dig("process", "generation")
    # The same as text, by the beginning of its number, and in the table.
    text, status = command(server.dir, "incidents", incident["id"][0, 6])
    assert_equal 0, status, text
    assert_includes text, "POST /die  after"
    assert_includes text, "these are my last words"
    refute_includes text, "secret"
    table, = command(server.dir, "incidents")
    assert_match(/^#{incident["id"]}  \S+ \S+  worker-died  /, table)
    none, status = command(server.dir, "incidents", "ffffffffff")
    assert_equal [1, true], [status, none.include?("no incident ffffffffff")]
  end

  # An idempotent request has one more try: each worker that it took along has its incident.
  def test_a_request_that_is_given_to_another_worker_is_told_so
    server = serve(app("config.ru" => APP), "-w", "2")
    assert_equal "502", server.get("/die").code
    outcomes = eventually("both incidents") do
      all = control(server, "/incidents")["incidents"].map { |one| control(server, "/incidents/#{one["id"]}") }
      told = all.flat_map { |one| one["requests"].map { |request| request["outcome"] } }
      told if told.size == 2
    end
    assert_equal ["answered 502", "given to another worker"], outcomes.sort
  end

  def test_a_time_out_tells_where_its_thread_was
    dir = app("config.ru" => APP)
    barrier(dir)
    server = serve(dir, "-w", "1", "--app-hard-timeout", "300ms")
    assert_equal "504", server.get("/slow").code
    incident = eventually("the backtrace and the end") do
      found = settled(server, "timed-out")
      found if found && found["backtraces"].any? && found["after"].any?
    end
    assert_match(/\AGET \/slow ran for .* longer than app_hard_timeout\z/, incident["what"])
    assert_equal "answered 504", incident["requests"].first["outcome"]
    assert_match(/config\.ru:8/, incident["backtraces"].first["lines"].join("\n"))
    assert_match(/was killed by signal 9/, incident["after"].first)
    assert_equal 1, control(server, "/incidents")["count"], "its end is no incident of its own"
  end

  def test_a_preloader_takes_the_requests_of_its_workers_along
    dir = app("config.ru" => APP)
    barrier(dir)
    server = serve(dir, "-w", "1")
    asking = Thread.new { server.request(Net::HTTP::Post.new("/slow")).code }
    eventually("the request in hand") { server.state[:busy] == 1 }
    from = server.output.size
    Process.kill(:KILL, server.preloaders.first)
    assert_equal "502", asking.value
    server.wait_for(/ is ready: /, from: from)
    incident = eventually("the lost request") do
      found = settled(server, "preloader-died")
      found if found && found["requests"].any?
    end
    assert_equal "/slow", incident["requests"].first["path"]
  end

  def test_a_restart_that_fails_is_kept_with_its_report_and_outlives_the_server
    dir = app("config.ru" => APP)
    server = serve(dir, "-w", "1")
    write(dir, "config.ru" => "raise 'no such luck'")
    server.signal(:USR1)
    incident = eventually("the incident") { settled(server, "restart-failed") }
    assert_includes incident["report"], "no such luck"
    assert_equal ["the old generation goes on serving"], incident["after"]
    assert_equal "200", server.get("/").code
    # The same failure once more is the same incident.
    server.signal(:USR1)
    eventually("the second time") { control(server, "/incidents/#{incident["id"]}")["times"] == 2 }
    server.stop
    folder = File.join(dir, "tmp/paceline/incidents")
    files = Dir.children(folder)
    assert_equal 1, files.size
    assert_equal [0o700, 0o600], [folder, File.join(folder, files.first)].map { |path| File.stat(path).mode & 0o777 }
    write(dir, "config.ru" => APP)
    again = serve(dir, "-w", "1")
    known = control(again, "/incidents")
    assert_equal [0, incident["id"], 2], [known["count"], *known["incidents"].first.values_at("id", "times")]
  end

  def test_a_start_that_fails_has_the_number_that_its_page_shows
    server = serve(app("config.ru" => "raise 'no such luck'"), "-e", "production", ready: false)
    number = eventually("the page") { server.get("/", "Accept" => "text/html").body[/\b\h{8}\b/] }
    assert_equal "start-failed", control(server, "/incidents/#{number}")["kind"]
  end

  def test_off_keeps_nothing_on_disk
    server = serve(app("config.ru" => APP), "-w", "1", "--incidents-dir", "off")
    server.request(Net::HTTP::Post.new("/die"))
    eventually("the incident") { settled(server, "worker-died") }
    server.stop
    refute File.exist?(File.join(server.dir, "tmp/paceline"))
  end

  private

  def page(server)
    UNIXSocket.open(File.join(server.dir, "tmp/paceline.sock")) do |io|
      io.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
      io.read.force_encoding("UTF-8")
    end
  end

  # The first incident of this kind with what is told of it a moment later, or nil.
  def settled(server, kind)
    one = control(server, "/incidents")["incidents"].find { |incident| incident["kind"] == kind } or return
    incident = control(server, "/incidents/#{one["id"]}")
    incident if incident["kind"] != "worker-died" || incident["requests"].any? && incident["log"].any? { |line| line.include?("last words") }
  end
end
