# What each signal does, what a service manager is told, and what is left behind in the end.
require_relative "../support/scenario"
require_relative "../support/certificates"
require_relative "../support/control"
require_relative "../support/http2_client"
require_relative "../support/wire"

class SignalsTest < Minitest::Test
  include Scenario
  include Control

  HELLO = 'run ->(env) { [200, {}, ["hello"]] }'.freeze
  HELD = 'run ->(env) { File.write("entered", Process.pid.to_s); File.read("barrier"); [200, {}, ["done"]] }'.freeze

  def gone(pids)
    eventually("#{pids} to go") { pids.none? { |pid| File.exist?("/proc/#{pid}") } }
  end

  # A server with a request in its hands.
  def busy
    dir = app("config.ru" => HELD)
    gate, entered = barrier(dir), barrier(dir, "entered")
    server = serve(dir, "-w", "1", "-t", "1")
    asking = Thread.new { server.get("/").body rescue $!.class }
    entered.wait
    [server, gate, asking]
  end

  def refuses?(port)
    TCPSocket.new("127.0.0.1", port).close
    false
  rescue Errno::ECONNREFUSED
    true
  end

  %w[TERM INT].each do |name|
    define_method("test_#{name.downcase}_finishes_what_is_in_hand_and_a_repetition_within_a_moment_is_an_echo") do
      server, gate, asking = busy
      ruby = server.descendants

      2.times { server.signal(name) }
      server.wait_for(/^\* Stopping: requests in hand are finished first$/)
      server.signal(name)
      # Each event loop closes its own listener.
      eventually("the listeners to close") { refuses?(server.port) }
      gate.open

      assert_equal "done", asking.value
      assert_equal 0, server.wait.exitstatus
      refute_match(/Stopping at once/, server.output)
      gone(ruby)
    end
  end

  def test_a_second_term_stops_at_once
    server, _, asking = busy
    ruby = server.descendants
    server.signal(:TERM)
    server.wait_for(/^\* Stopping: /)
    # Until the first second is over a repetition does not count.
    eventually("the server to stop") { server.signal(:TERM) unless server.ended?; server.ended? }

    assert_equal 0, server.wait.exitstatus
    assert_match(/^\* Stopping at once$/, server.output)
    gone(ruby)
    refute_equal "done", asking.value
  end

  def test_quit_halts
    server, _, asking = busy
    ruby = server.descendants

    server.signal(:QUIT)

    assert_equal 0, server.wait.exitstatus
    assert_match(/^\* Halted$/, server.output)
    gone(ruby)
    refute_equal "done", asking.value
  end

  def test_term_while_the_app_boots
    dir = app("config.ru" => 'File.write("entered", "x"); sleep; ' + HELLO)
    entered = barrier(dir, "entered")
    server = serve(dir, ready: false)
    entered.wait
    ruby = server.descendants

    assert_equal 0, server.stop.exitstatus
    gone(ruby)
  end

  def test_the_terminal_s_signals_do_not_reach_the_ruby_processes
    dir = app("config.ru" => HELLO)
    server = serve(dir, "-w", "1")
    before = server.descendants
    before.each { |pid| %w[INT HUP QUIT].each { |name| Process.kill(name, pid) } }
    assert_equal "hello", server.get("/").body
    assert_equal before.sort, server.descendants.sort
  end

  def test_ttin_and_ttou_add_and_take_workers
    server = serve(app("config.ru" => HELLO), "-w", "1")
    first = server.workers

    server.signal(:TTIN)
    eventually("a second worker") { server.workers.size == 2 }
    server.signal(:TTOU)
    eventually("the first worker alone") { server.workers == first }
    server.signal(:TTOU) # one stays
    server.wait_for(/(: 1 worker wanted now$.*){2}/m)
    server.signal(:TTIN)
    eventually("a second worker again") { server.workers.size == 2 && (first - server.workers).empty? }
    assert_equal "hello", server.get("/").body
  end

  def test_a_worker_that_is_wanted_again_before_it_has_ended_is_one_and_not_two
    dir = app("config.ru" => 'run ->(env) { at = env["PATH_INFO"][1..]; File.write("entered-#{at}", "x"); File.read("gate-#{at}"); [200, {}, ["done"]] }')
    gates, entered = %w[gate entered].map { |name| %w[a b].map { |at| barrier(dir, "#{name}-#{at}") } }
    server = serve(dir, "-w", "2", "-t", "1")
    asking = %w[/a /b].map { |path| Thread.new { server.get(path).body } }
    entered.each(&:wait)
    second = server.workers.find { |pid| server.title(pid).include?("worker 2") }

    server.signal(:TTOU)
    server.wait_for(/: 1 worker wanted now/)
    server.signal(:TTIN)
    server.wait_for(/: 2 workers wanted now/)
    eventually("its successor") { server.workers.size == 3 }
    gates.each(&:open)
    assert_equal %w[done done], asking.map(&:value)
    eventually("its end") { !server.workers.include?(second) }
    server.signal(:TTIN)

    names = %w[1 2 3]
    eventually("one of each") { server.workers.map { |pid| server.title(pid)[/worker (\d+)/, 1] }.sort == names }
  end

  def test_hup_reopens_the_logs
    dir = app("config.ru" => 'run ->(env) { $stdout.puts("printed #{env["PATH_INFO"]}"); $stdout.flush; [200, {}, ["hello"]] }')
    access, events = File.join(dir, "access.log"), File.join(dir, "app.log")
    server = serve(dir, "-p", "0", "--access-log", access, "--app-log", events, ready: false, port: false)
    listening = /Listening on http:\/\/\S+:(\d+)/
    eventually("the server") { File.exist?(events) && File.read(events).match(listening) { |match| server.port = Integer(match[1]) } }
    server.get("/one")
    [access, events].each { |path| File.rename(path, "#{path}.1") }
    server.signal(:HUP)
    eventually("new logs") { File.exist?(access) && File.exist?(events) }
    server.get("/two")
    eventually("lines") { File.read(access).include?("GET /two") && File.read(events).include?("printed /two") }
    assert_match(/"GET \/one /, File.read("#{access}.1"))
    refute_match(/"GET \/one /, File.read(access))
    assert_equal 0, server.stop.exitstatus
  end

  def test_the_pidfile_lives_as_long_as_the_server
    dir = app("config.ru" => HELLO)
    path = File.join(dir, "tmp/pids/server.pid")
    write(dir, "tmp/pids/server.pid" => "#{Process.spawn("true").tap { |pid| Process.wait(pid) }}\n")
    server = serve(dir, "--pidfile", path)
    assert_equal "#{server.pid}\n", File.read(path)

    second = serve(dir, "--pidfile", path, ready: false, port: false)
    assert_equal 1, second.wait.exitstatus
    assert_equal ["paceline: paceline (pid #{server.pid}) is running already in #{dir}, says #{path}; stop it first"], second.output.lines(chomp: true)

    assert_equal "hello", server.get("/").body
    assert_equal 0, server.stop.exitstatus
    refute_path_exists path
  end

  def test_a_pidfile_counts_only_while_its_server_lives
    dir = app("config.ru" => HELLO)
    path = File.join(dir, "tmp/pids/server.pid")
    # A job queue has got the pid of a server that was killed, and both are called after the same gem.
    jobs = Process.spawn(["sleep", "/usr/lib/ruby/gems/paceline/bin/jobs"], "600", chdir: dir)
    write(dir, "tmp/pids/server.pid" => "#{jobs}\n")
    server = serve(dir, "--pidfile", path)
    assert_equal "#{server.pid}\n", File.read(path)

    # The file of a folder that was copied while its server runs.
    copy = app("config.ru" => HELLO, "tmp/pids/server.pid" => File.read(path))
    copied = serve(copy, "--pidfile", File.join(copy, "tmp/pids/server.pid"))
    assert_equal "hello", copied.get("/").body

    # After an upgrade the file names a process that only stands in for the server.
    assert_equal 0, command(dir, "upgrade", "--wait").last
    second = serve(dir, "--pidfile", path, ready: false, port: false)
    assert_equal 1, second.wait.exitstatus
    assert_match(/\(pid #{server.pid}\) is running already in /, second.output)
  ensure
    Process.kill(:KILL, jobs)
    Process.wait(jobs)
  end

  # What a service manager is told next that says one of these things, as a Hash.
  def told(manager, name)
    Timeout.timeout(PATIENCE) do
      loop do
        state = manager.recv(1000).lines(chomp: true).to_h { |line| line.split("=", 2) }
        return state if state.key?(name)
      end
    end
  end

  def manager(path)
    Socket.new(:UNIX, :DGRAM).tap { |socket| socket.bind(Addrinfo.unix(path)) }
  end

  def test_a_service_manager_is_told
    dir = app("config.ru" => 'File.read("barrier"); ' + HELLO)
    gate = barrier(dir)
    manager = manager(path = File.join(dir, "notify"))
    server = serve(dir, env: { "NOTIFY_SOCKET" => path }, ready: false)
    # While the application boots it asks for patience.
    assert_operator Integer(told(manager, "EXTEND_TIMEOUT_USEC")["EXTEND_TIMEOUT_USEC"]), :>, 10_000_000
    assert_raises(IO::WaitReadable) { manager.recv_nonblock(100) }

    gate.open
    assert_equal({ "READY" => "1", "STATUS" => "Serving" }, told(manager, "READY"))
    server.signal(:TERM)
    assert_equal "1", told(manager, "STOPPING")["STOPPING"]
    assert_equal 0, server.wait.exitstatus
  end

  def test_a_service_manager_is_told_of_a_restart_and_an_upgrade
    dir = app("config.ru" => HELLO)
    manager = manager(path = File.join(dir, "notify"))
    server = serve(dir, env: { "NOTIFY_SOCKET" => path })
    told(manager, "READY")
    before = Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond)
    %i[USR1 USR2].each do |signal|
      server.signal(signal)
      reloading = told(manager, "RELOADING")
      assert_includes before..Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond), Integer(reloading["MONOTONIC_USEC"])
      assert_equal "Serving", told(manager, "READY")["STATUS"]
    end
    write(dir, "config.ru" => "raise 'not today'")
    server.signal(:USR1)
    told(manager, "RELOADING")
    eventually("word of the failure") { told(manager, "READY")["STATUS"] == "Serving; a restart did not succeed" }
  end

  def test_a_watchdog_hears_of_the_server_as_long_as_each_event_loop_is_alive
    dir = app("config.ru" => HELLO)
    manager = manager(path = File.join(dir, "notify"))
    server = serve(dir, "--front-threads", "2", env: { "NOTIFY_SOCKET" => path, "WATCHDOG_USEC" => "200000" })
    2.times { told(manager, "WATCHDOG") }
    other = manager(File.join(dir, "other"))
    serve(dir, "--control", "off", env: { "NOTIFY_SOCKET" => File.join(dir, "other"), "WATCHDOG_USEC" => "1000", "WATCHDOG_PID" => "1" })
    told(other, "READY")
    assert_raises(IO::WaitReadable) { other.recv_nonblock(100) }
    assert_equal 0, server.stop.exitstatus
  end

  def test_a_service_manager_is_told_ready_when_the_app_has_failed
    dir = app("config.ru" => 'raise "broken"')
    path = "\0paceline-test-#{Process.pid}"
    manager = manager(path)
    serve(dir, env: { "NOTIFY_SOCKET" => path.tr("\0", "@") }, ready: false)
    assert_equal "1", told(manager, "READY")["READY"]
  end

  def test_sockets_are_handed_over
    dir = app("config.ru" => "run ->(env) { [200, {}, [ENV.keys.grep(/LISTEN/).inspect]] }")
    listener = TCPServer.new("127.0.0.1", 0)
    log = File.join(dir, "log")
    pid = Process.spawn({ "LISTEN_FDS" => "1", "PACELINE_GEM_DIR" => File.join(CHECKOUT, "gem") }.merge(AS_ROOT), "sh", "-c",
      'LISTEN_PID=$$ exec "$0"', BIN, chdir: dir, 3 => listener, err: log, out: File::NULL)
    body = Net::HTTP.get(URI("http://127.0.0.1:#{listener.local_address.ip_port}/"))
    assert_equal "[]", body
    assert_match(/Listening on http:\/\/127\.0\.0\.1:#{listener.local_address.ip_port}$/, File.read(log))
  ensure
    Process.kill(:TERM, pid)
    assert_equal 0, Process.wait2(pid).last.exitstatus
  end

  def test_sockets_that_are_handed_over_are_served_as_their_address_says
    dir = app("config.ru" => 'run ->(env) { [200, {}, [env["rack.url_scheme"], " ", env["SERVER_PROTOCOL"]]] }')
    authority = Authority.new
    cert, key = authority.write(dir, "shop", "shop.test")
    listeners = Array.new(3) { TCPServer.new("127.0.0.1", 0) }
    ports = listeners.map { |listener| listener.local_address.ip_port }
    write(dir, "paceline.toml" => <<~TOML)
      bind = ["https://127.0.0.1:#{ports[1]}?cert=#{cert}&key=#{key}", "h2c://127.0.0.1:#{ports[2]}", "h2c://127.0.0.1:9"]
    TOML
    server = serve(dir, port: false, handed: listeners)

    assert_equal "http HTTP/1.1", Net::HTTP.get(URI("http://127.0.0.1:#{ports[0]}/"))
    authority.connect(ports[1], "shop.test") do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
      assert_equal "https HTTP/1.1", Wire.response(socket).body
    end
    client = Http2Client.new(TCPSocket.new("127.0.0.1", ports[2]))
    assert_equal [200, "http HTTP/2"], client.response(client.request)
    assert_match(/127\.0\.0\.1:9 is not among the sockets handed over/, server.output)
  ensure
    listeners&.each(&:close)
  end

  def test_what_a_killed_server_has_left_is_removed
    dir = app("config.ru" => HELLO)
    spool = app("paceline-8388608-0" => "a body", "paceline-8388608-1" => "one of just now", "paceline-#{Process.pid}-0" => "of a living one")
    Dir[File.join(spool, "*")].each { |path| File.chmod(0o600, path) }
    long_ago = Time.now - 3600
    %W[paceline-8388608-0 paceline-#{Process.pid}-0].each { |name| File.utime(long_ago, long_ago, File.join(spool, name)) }

    server = serve(dir, env: { "TMPDIR" => spool })

    assert_match(/Removed 1 temporary files of servers that were killed/, server.output)
    assert_equal ["paceline-8388608-1", "paceline-#{Process.pid}-0"].sort, Dir.children(spool).sort
  end

  def test_a_unix_socket
    dir = app("config.ru" => HELLO)
    path = File.join(dir, "server.sock")
    UNIXServer.new(path).close # a leftover
    server = serve(dir, "-b", "unix://#{path}?umask=0117", port: false)
    assert_equal 0o660, File.stat(path).mode & 0o777

    answer = UNIXSocket.open(path) do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
      socket.read
    end

    assert_match(/\AHTTP\/1\.1 200 .*hello\z/m, answer)
    assert_equal 0, server.stop.exitstatus
    refute_path_exists path
  end

  def test_a_port_that_is_taken
    dir = app("config.ru" => HELLO)
    holder = TCPServer.new("127.0.0.1", 0)
    port = holder.local_address.ip_port

    server = serve(dir, "-p", port.to_s, ready: false, port: false)

    assert_equal 1, server.wait.exitstatus
    assert_match(/127\.0\.0\.1:#{port}/, server.output)
    assert_match(/\(pid #{Process.pid}\)/, server.output.gsub(/\s+/, " "))
    assert_match(/in use/, server.output)
  end
end
