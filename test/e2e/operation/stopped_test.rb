# The front is stopped (SIGSTOP, a debugger, a machine that sleeps) for longer than its time-outs, and goes on: what was done meanwhile is done in time. Here
# time has to pass; nothing depends on how much more than STOPPED it is.
require_relative "../support/scenario"
require_relative "../support/wire"

class StoppedTest < Minitest::Test
  include Scenario

  # Seconds, and more than any time-out below.
  STOPPED = 4
  SETTINGS = <<~TOML
    start_timeout = "3s"
    app_hard_timeout = "3s"
    queue_timeout = "3s"
    head_timeout = "3s"
    body_timeout = "3s"
    keepalive_timeout = "3s"
    drain_timeout = "3s"
  TOML
  APP = <<~RUBY.freeze
    run(lambda do |env|
      (File.write("entered", Process.pid.to_s); File.read("barrier")) if env["PATH_INFO"] == "/held"
      [200, { "content-type" => "text/plain" }, [env["rack.input"].read, "ok"]]
    end)
  RUBY

  def setup
    @dir = app("config.ru" => APP, "paceline.toml" => SETTINGS)
    @gate = barrier(@dir)
    @entered = barrier(@dir, "entered")
  end

  # Stops the front, does the block, and lets it go on when every time-out has passed.
  def stopped(server)
    server.signal(:STOP)
    eventually("the front to be stopped") { File.read("/proc/#{server.pid}/stat")[/\) (\w)/, 1] == "T" }
    yield
    sleep STOPPED
  ensure
    server.signal(:CONT)
  end

  def test_an_answer_and_those_who_waited_for_its_thread_are_in_time
    server = serve(@dir, "-w", "1", "-t", "1")
    held = Thread.new { server.get("/held") }
    worker = @entered.wait
    waiting = Array.new(3) { |nth| Thread.new { server.get("/#{nth}") } }
    eventually("the requests to wait") { server.state[:waiting] == 3 }

    stopped(server) { @gate.open }

    assert_equal %w[ok] * 4, [held, *waiting].map { |asking| asking.value.body }
    assert_equal [worker.to_i], server.workers
    refute_match(/replacing|killed/, server.output)
  end

  def test_what_clients_have_sent_meanwhile_is_in_time
    server = serve(@dir, "-w", "1", "-t", "2")
    server.connect do |idle|
      idle.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
      assert_equal "ok", Wire.response(idle).body
      server.connect do |head|
        head.write("GET / HTTP/1.1\r\nHo")
        server.connect do |body|
          body.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc")
          eventually("what there is to be read") { server.state[:buffered] == 3 }
          stopped(server) do
            idle.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            head.write("st: x\r\n\r\n")
            body.write("def")
          end
          assert_equal %w[ok ok abcdefok], [idle, head, body].map { |socket| Wire.response(socket).body }
        end
      end
    end
  end

  def test_a_preloader_that_forked_meanwhile_is_no_stuck_one
    write(@dir, "config/puma.rb" => 'workers 1; before_worker_fork { (File.write("entered", "x"); File.read("barrier")) if File.exist?("again") }')
    server = serve(@dir, "-t", "1")
    preloaders = server.preloaders
    write(@dir, "again" => "")
    3.times do
      Process.kill(:KILL, server.workers.first)
      @entered.wait
      stopped(server) { @gate.open }
      assert_equal "ok", server.get("/").body
    end
    assert_equal preloaders, server.preloaders
    refute_match(/has not forked/, server.output)
  end

  def test_an_application_that_started_meanwhile_has_started
    write(@dir, "config.ru" => "(File.write('entered', 'x'); File.read('barrier'))\n#{APP}")
    server = serve(@dir, "-w", "1", "-t", "1", ready: false)
    3.times do |nth|
      @entered.wait
      stopped(server) { @gate.open }
      assert_equal "ok", server.get("/").body
      server.wait_for(/(?: is ready.*){#{nth + 1}}/m)
      server.signal(:USR1) if nth < 2
    end
    refute_match(/did not start|not ready/, server.output)
  end
end
