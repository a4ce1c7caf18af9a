# config/puma.rb in the real server: each word that acts while it serves, and what its start says.
require_relative "../support/scenario"

class PumaConfigScenario < Minitest::Test
  include Scenario

  ENVIRONMENT = { "RACK_ENV" => "production" }.freeze
  HELLO = "run ->(env) { [200, { 'content-type' => 'text/plain' }, [\"\#{env['REMOTE_ADDR']} \#{env['rack.url_scheme']} \#{ENV['SHOP']}\"]] }\n".freeze

  def start(config, rackup = HELLO, env: {}, **more)
    @dir = app({ "config.ru" => rackup, "config/puma.rb" => config, "tmp/keep" => "" }.merge(more.fetch(:files, {})))
    @server = serve(@dir, env: ENVIRONMENT.merge(env), port: more.fetch(:port, true))
  end

  def lines(name) = File.exist?(File.join(@dir, name)) ? File.readlines(File.join(@dir, name), chomp: true) : []

  def test_the_file_is_read_once_and_before_the_application
    config = "File.write('reads', \"\#{$$}\\n\", mode: 'a')\nENV['SHOP'] ||= 'open'\nworkers 2\nbefore_fork { File.write('forker', \"\#{$$}\\n\", mode: 'a') }"
    start(config, "loaded = ENV['SHOP']\nrun ->(env) { [200, {}, [loaded]] }")
    assert_equal "open", @server.get("/").body
    assert_equal 1, lines("reads").size
    assert_equal lines("reads"), lines("forker"), "by the process that has loaded the application"
    @server.signal(:USR1)
    @server.wait_for(/ is ready: .* is ready: /m)
    assert_equal 2, lines("reads").size, "once more for the restart"
  end

  def test_lowlevel_error_handler_answers
    config = "threads 1\nlowlevel_error_handler { |error, env, status| [503, { 'content-type' => 'application/json' }, [\"{\\\"\#{error.class}\\\":\#{status}, \\\"\#{env['PATH_INFO']}\\\"}\"]] }"
    start(config, "run ->(env) { raise ArgumentError, 'nobody' }")
    response = @server.get("/orders")
    assert_equal ["503", '{"ArgumentError":500, "/orders"}'], [response.code, response.body]
    @server.wait_for(/nobody \(ArgumentError\)|ArgumentError: nobody/)
  end

  def test_a_handler_that_raises_leaves_the_usual_page
    start("lowlevel_error_handler { |error| raise 'it too' }", "run ->(env) { raise ArgumentError, 'nobody' }")
    2.times { assert_equal "500", @server.get("/").code }
    @server.wait_for(/it too/)
  end

  def test_remote_address_by_header_and_by_value
    start("set_remote_address header: 'X-Real-IP'\nrack_url_scheme 'https'")
    assert_match(/\A203\.0\.113\.9 https /, @server.get("/", "X-Real-IP" => "203.0.113.9, 10.0.0.1").body)
    assert_match(/\A127\.0\.0\.1 https /, @server.get("/").body)
    start("set_remote_address '10.9.8.7'")
    assert_match(/\A10\.9\.8\.7 http /, @server.get("/").body)
  end

  def test_a_proxy_header_is_welcome_and_not_needed
    start("set_remote_address proxy_protocol: :v1")
    assert_match(/\A127\.0\.0\.1 /, @server.get("/").body)
    @server.connect do |socket|
      socket.write("PROXY TCP4 203.0.113.9 10.0.0.1 51234 80\r\n", Wire.request("/"))
      assert_match(/203\.0\.113\.9 /, Wire.response(socket, to: "GET").body)
    end
  end

  def test_hooks_of_the_server_with_workers
    config = <<~RUBY
      workers 2
      after_booted { File.write("booted", "\#{$$}\\n", mode: "a") }
      on_stopped { File.write("stopped", "\#{$$}\\n", mode: "a") }
      before_worker_boot { |index| File.write("booting", "\#{index}\\n", mode: "a") }
      after_worker_shutdown { |worker| File.write("shut", "\#{worker.index} \#{worker.process_status.success?}\\n", mode: "a") }
    RUBY
    start(config)
    eventually("after_booted") { lines("booted").size == 1 }
    assert_equal %w[0 1], lines("booting").sort
    @server.stop
    eventually("on_stopped") { lines("stopped") == lines("booted") }
    assert_equal ["0 true", "1 true"], lines("shut").sort
  end

  def test_hooks_of_the_server_with_one_worker_run_in_it
    config = "workers 0\nthreads 2\nafter_booted { $ready = $$ }\nafter_stopped { File.write('stopped', $$.to_s) }\nout_of_band { File.write('idle', 'x', mode: 'a') }"
    start(config, "run ->(env) { [200, {}, [\"\#{$ready} \#{$$}\"]] }")
    eventually("after_booted") { @server.get("/").body.split.uniq.size == 1 }
    pid = @server.get("/").body.split.first
    eventually("out_of_band") { !lines("idle").empty? }
    @server.stop
    assert_equal [pid], lines("stopped")
  end

  def test_a_request_that_only_waits_makes_room_for_another
    held = "require 'net/http'\nrun ->(env) { if env['PATH_INFO'] == '/held' then env['puma.mark_as_io_bound'].call; File.read('barrier'); end; [200, {}, ['ok']] }"
    start("workers 1\nthreads 1\nmax_io_threads 2", held)
    File.mkfifo(File.join(@dir, "barrier"))
    waiting = Thread.new { @server.get("/held").body }
    assert_equal "ok", @server.get("/quick").body
    File.write(File.join(@dir, "barrier"), "x")
    assert_equal "ok", waiting.value
  end

  def test_a_thread_that_no_worker_has_is_named
    initializer = "module Ticker; def self.start = Thread.new { sleep }.tap { |thread| thread.name = 'ticker' }; end\n"
    start("workers 2", "require_relative 'ticker'\nTicker.start\nrun ->(env) { [200, {}, []] }", files: { "ticker.rb" => initializer })
    @server.wait_for(/the thread "ticker" that ticker\.rb:1 started while the application was loaded is not in the workers; start it in before_worker_boot/)
  end

  def test_both_families_by_file_flag_and_variable
    skip "no IPv6 here" unless Socket.ip_address_list.any?(&:ipv6_loopback?)
    { ["bind 'tcp://[::]:0'", {}] => [], ["threads 1", {}] => %w[-b tcp://[::]:0], ["threads 2", { "HOST" => "::", "PORT" => "0" }] => [] }.each do |(config, env), flags|
      dir = app("config.ru" => HELLO, "config/puma.rb" => config)
      server = serve(dir, *flags, env: ENVIRONMENT.merge(env), port: false)
      port = server.wait_for(%r{Listening on http://\[::\]:(\d+)})[1]
      %w[127.0.0.1 ::1].each do |address|
        TCPSocket.open(address, port) do |socket|
          socket.write(Wire.request("/"))
          assert_match(/\A#{address} /, Wire.response(socket, to: "GET").body, config)
        end
      end
    end
  end

  def test_a_file_that_raises_ends_the_start_with_its_report
    dir = app("config.ru" => HELLO, "config/puma.rb" => "threads 2\n\nputs 'reading'\nraise ArgumentError, 'no secret'\n")
    server = serve(dir, port: false, ready: false)
    refute_predicate server.wait, :success?
    ["ArgumentError", "no secret", "config/puma.rb:4", "reading"].each { |words| assert_includes server.output, words }
  end

  def test_the_queue_that_rails_new_writes_is_a_process
    jobs = "#!/bin/sh\necho queue started\nexec sleep 1000\n"
    dir = app("config.ru" => HELLO, "config/puma.rb" => "plugin :tmp_restart\nplugin :solid_queue if ENV['SOLID_QUEUE_IN_PUMA']", "bin/jobs" => jobs)
    File.chmod(0o755, File.join(dir, "bin/jobs"))
    server = serve(dir, env: ENVIRONMENT.merge("SOLID_QUEUE_IN_PUMA" => "1"))
    server.wait_for(/plugin :solid_queue: the queue runs beside the workers/)
    server.wait_for(/queue started/)
  end
end
