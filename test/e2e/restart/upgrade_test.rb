# A new program takes the place of the one that serves: no connection is refused, no request fails, nothing that was kept is lost.
require_relative "../support/control"
require_relative "../support/scenario"
require_relative "../support/wire"

class UpgradeTest < Minitest::Test
  include Scenario
  include Control

  APP = <<~RUBY.freeze
    made = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    run ->(env) do
      kept = env["PATH_INFO"].start_with?("/kept") ? { "cache-control" => "max-age=3600" } : {}
      [200, kept, ["\#{env["REQUEST_METHOD"]} \#{made}"]]
    end
  RUBY
  SERVES = /^\* Replaced by pid (\d+): /
  OVER = /^\* Replaced: all requests are finished$/

  # A server whose program is a file of its own, as one that is installed.
  def installed(dir, *arguments, **options)
    bin = app
    path = File.join(bin, "paceline")
    FileUtils.cp(BIN, path)
    server = serve(dir, *arguments, within: ["sh", "-c", 'shift; exec "$0" "$@"', path], **options)
    [server, path]
  end

  # Puts another file where the program is, as a package manager does.
  def replace(path, content = nil)
    content ? File.binwrite("#{path}.new", content) : FileUtils.cp(BIN, "#{path}.new")
    File.chmod(0o755, "#{path}.new")
    File.rename("#{path}.new", path)
  end

  def answers?(server) = server.get("/").code == "200"

  # The front that serves: the only child of the stand-in, or the first front itself.
  def front(server)
    File.read("/proc/#{server.pid}/cmdline").include?("--stand-in-for") ? children(server.pid).first : server.pid
  end

  # A thread may end meanwhile.
  def children(pid) = Dir["/proc/#{pid}/task/*/children"].flat_map { |path| File.read(path).split.map(&:to_i) rescue [] }

  # Asks with GET and POST, on connections that are kept and on new ones, until told to stop. What came of each request.
  def visitors(server, count = 6)
    stop = false
    threads = Array.new(count) do |number|
      Thread.new do
        answers = []
        until stop
          socket = server.connect
          until stop
            method = %w[GET POST][number % 2]
            close = number >= count / 2 ? "Connection: close\r\n" : ""
            socket.write("#{method} / HTTP/1.1\r\nHost: x\r\n#{close}#{"Content-Length: 0\r\n" if method == "POST"}\r\n")
            answer = Wire.response(socket)
            answers << "#{answer.status} #{answer.body[/\A\w+/]}"
            break if answer["connection"]
          end
          socket.close
        end
        answers
      rescue EOFError, SystemCallError => error
        answers << "#{error.class} after #{answers.size}"
      end
    end
    yield
    stop = true
    threads.flat_map(&:value)
  end

  def gone(pids)
    eventually("#{pids} to go") { pids.none? { |pid| File.exist?("/proc/#{pid}") } }
  end

  %w[usr2 command].each do |way|
    define_method("test_no_request_fails_over_three_upgrades_by_#{way}") do
      dir = app("config.ru" => APP)
      server, path = installed(dir, "-w", "2", "-t", "2", "--pidfile", "tmp/server.pid")
      pids = [server.pid]
      answers = visitors(server) do
        3.times do |nth|
          replace(path)
          way == "usr2" ? server.signal(:USR2) : assert_equal(0, command(dir, "upgrade", "--wait").last)
          eventually("upgrade #{nth + 1}") { server.output.scan(SERVES).size == nth + 1 }
          eventually("the old front to end") { server.output.scan(OVER).size == nth + 1 }
          eventually("the one front") { children(server.pid).size == 1 && !pids.include?(front(server)) }
          pids << front(server)
        end
      end

      assert_equal ["200 GET", "200 POST"], answers.uniq.sort
      assert_equal 4, pids.uniq.size
      assert_equal "#{server.pid}\n", File.read(File.join(dir, "tmp/server.pid"))
      assert_equal 1, children(server.pid).size
      # Nobody knows of the new pids: the old one stands for them all.
      ruby = server.descendants
      assert_equal 4, ruby.size
      assert_equal 0, server.stop.exitstatus
      gone(ruby)
      refute_path_exists File.join(dir, "tmp/server.pid")
      refute_path_exists File.join(dir, "tmp/paceline.sock")
      assert_equal 1, server.output.scan(/^\* Stopped$/).size
    end
  end

  def test_what_is_kept_in_memory_is_a_hit_afterwards_and_purges_hold
    dir = app("config.ru" => APP)
    server, = installed(dir)
    first = %w[/kept/a /kept/b].map { |path| server.get(path).body }
    assert_equal 0, command(dir, "upgrade", "--wait").last
    # Until then the old one may answer a connection that it has accepted, and it has given its pages away.
    server.wait_for(OVER)
    again = server.get("/kept/a")
    assert_equal first.first, again.body
    assert_match(/\Apaceline; hit; ttl=/, again["cache-status"])
    assert_operator Integer(again["age"]), :>=, 0
    out, status = command(dir, "purge", "http://127.0.0.1:#{server.port}/kept/b")
    assert_equal 0, status, out
    refute_equal first.last, server.get("/kept/b").body
    assert_equal 0, server.stop.exitstatus
  end

  def test_what_is_kept_on_disk_goes_along
    dir = app("config.ru" => APP)
    pages = %w[--cache-disk 16MB --cache-dir tmp/pages]
    server, = installed(dir, *pages)
    shop = { "Host" => "shop.test" }
    first = server.get("/kept/a", shop).body
    eventually("it to be on disk") { control(server, "/cache/stats")["disk"]["responses"] == 1 }
    assert_equal 0, command(dir, "upgrade", "--wait").last
    assert_equal first, server.get("/kept/a", shop).body
    disk = control(server, "/cache/stats")["disk"]
    assert_equal [1, false], disk.values_at("responses", "given_up")
    server.get("/kept/b", shop)
    eventually("the new one to write") { control(server, "/cache/stats")["disk"]["responses"] == 2 }
    assert_equal 0, server.stop.exitstatus

    # The code is the same. A shell that may have started it passes no functions of bash on, as `bin/test` exports one.
    server = serve(dir, *pages, env: { "BASH_FUNC_module%%" => "() {  :\n}" })
    assert_match(/ hit;/, server.get("/kept/a", shop)["cache-status"])
  end

  { "a_program_that_ends" => "#!/bin/sh\necho not today\nexit 3\n",
    "a_program_that_speaks_otherwise" => "#!/bin/sh\neval \"echo hello >&$PACELINE_HANDOVER_FD\"\nexit 0\n" }.each do |name, content|
    define_method("test_#{name}_leaves_the_old_one_serving") do
      dir = app("config.ru" => APP)
      server, path = installed(dir)
      serving = server.descendants
      replace(path, content)
      answers = visitors(server, 2) do
        out, status = command(dir, "upgrade", "--wait")
        assert_equal 1, status
        assert_match(/\Apaceline: it (exited with status|went silent)/, out)
      end
      assert_equal ["200 GET", "200 POST"], answers.uniq.sort
      server.wait_for(/^\* The new program does not take over; this one goes on serving: it /)
      eventually("it to go") { server.descendants.sort == serving.sort }
      # What is mended is taken the next time.
      replace(path)
      assert_equal 0, command(dir, "upgrade", "--wait").last
      assert answers?(server)
      assert_equal 0, server.stop.exitstatus
    end
  end

  def test_settings_that_are_wrong_leave_the_old_one_serving
    dir = app("config.ru" => APP, "paceline.toml" => "workers = 1\n")
    server, = installed(dir)
    write(dir, "paceline.toml" => "wrokers = 1\n")
    out, status = command(dir, "upgrade", "--wait", "--control", "tmp/paceline.sock")
    assert_equal 1, status
    assert_match(/wrokers/, out)
    assert answers?(server)
    assert_equal 0, server.stop.exitstatus
  end

  def test_an_application_that_does_not_start_leaves_the_old_one_serving
    dir = app("config.ru" => APP)
    server, = installed(dir)
    serving = server.descendants
    write(dir, "config.ru" => "raise 'not today'")
    out, status = command(dir, "upgrade", "--wait")
    assert_equal 1, status
    assert_match(/not today/, out)
    assert answers?(server)
    eventually("it to go") { server.descendants.sort == serving.sort }
    assert_equal 0, server.stop.exitstatus
  end

  def test_one_that_takes_too_long_is_given_up
    dir = app("config.ru" => "sleep if File.exist?('slow')\n#{APP}")
    server, = installed(dir, "--upgrade-timeout", "2s")
    serving = server.descendants
    write(dir, "slow" => "")
    out, status = command(dir, "upgrade", "--wait")
    assert_equal 1, status
    assert_match(/was not ready within 2s \(upgrade_timeout\)/, out)
    assert answers?(server)
    eventually("it to go") { server.descendants.sort == serving.sort }
  end

  def test_addresses_are_as_the_settings_say_now_and_a_unix_socket_stays
    dir = app("config.ru" => APP)
    one, two = File.join(dir, "one.sock"), File.join(dir, "two.sock")
    write(dir, "paceline.toml" => "bind = [\"tcp://127.0.0.1:0\", \"unix://#{one}\"]\n")
    server, = installed(dir, "-C", "paceline.toml", port: false)
    server.wait_for(/Listening on http:\/\/\S+:(\d+)/) { |match| server.port = Integer(match[1]) }
    inode = File.stat(one).ino
    write(dir, "paceline.toml" => "bind = [\"tcp://127.0.0.1:0\", \"unix://#{one}\", \"unix://#{two}\"]\n")
    assert_equal 0, command(dir, "upgrade", "--wait").last
    server.wait_for(OVER)
    assert answers?(server)
    assert_equal inode, File.stat(one).ino
    assert [one, two].all? { |path| UNIXSocket.open(path) { |io| io.write("GET / HTTP/1.0\r\n\r\n"); io.read.include?("200 OK") } }
    write(dir, "paceline.toml" => "bind = [\"tcp://127.0.0.1:0\", \"unix://#{two}\"]\n")
    assert_equal 0, command(dir, "upgrade", "--wait").last
    eventually("the address to be given up") { !File.exist?(one) }
    assert answers?(server)
    assert_equal 0, server.stop.exitstatus
    refute_path_exists two
  end

  def test_who_is_being_served_is_served_to_the_end_by_the_old_one
    dir = app("config.ru" => <<~RUBY)
      run ->(env) do
        next [200, {}, ["hello"]] unless env["PATH_INFO"] == "/held"
        File.write("entered", "x")
        File.read("barrier")
        [200, {}, ["done"]]
      end
    RUBY
    gate, entered = barrier(dir), barrier(dir, "entered")
    server, = installed(dir, "-w", "1", "-t", "1")
    held = Thread.new { server.get("/held").body }
    entered.wait
    idle = server.connect
    assert_equal 0, command(dir, "upgrade", "--wait").last
    # The new one serves meanwhile, and is told what the pid is told that everybody knows.
    assert_equal "hello", server.get("/").body
    server.signal(:TTIN)
    server.wait_for(/: 2 workers wanted now/)
    # A connection of before is the old one's, whose only thread is busy: it waits, and is answered.
    idle.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    gate.open
    assert_equal "done", held.value
    answer = Wire.response(idle)
    assert_equal %w[hello close], [answer.body, answer["connection"]]
    server.wait_for(OVER)
    assert_equal 0, server.stop.exitstatus
  end

  def test_streams_and_upgraded_connections_stay_with_the_old_one_until_they_end
    dir = app("config.ru" => <<~'RUBY')
      class Events
        def each
          yield "one"
          File.read("barrier")
          yield "two"
        end
      end
      run ->(env) do
        next [200, { "content-type" => "text/event-stream" }, Events.new] unless env["HTTP_UPGRADE"]
        io = env["rack.hijack"].call
        io.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
        Thread.new { while (line = io.gets) do io.write(line) end; io.close }
        [-1, {}, []]
      end
    RUBY
    gate = barrier(dir)
    server, = installed(dir, "-t", "3")
    tunnel, events = server.connect, server.connect
    tunnel.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
    assert_equal 101, Wire.head(tunnel).status
    events.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    Wire.head(events)
    assert_equal "one", Wire.chunk(events)

    assert_equal 0, command(dir, "upgrade", "--wait").last
    tunnel.write("still here\n")
    assert_equal "still here\n", Timeout.timeout(PATIENCE) { tunnel.gets }
    gate.open
    assert_equal ["two", nil], [Wire.chunk(events), Wire.chunk(events)]
    refute_match(OVER, server.output)
    tunnel.close
    server.wait_for(OVER)
    assert_equal 0, server.stop.exitstatus
  end

  def test_a_kill_of_the_known_pid_ends_all
    dir = app("config.ru" => APP)
    server, = installed(dir)
    2.times do |nth|
      assert_equal 0, command(dir, "upgrade", "--wait").last
      eventually("the old front to end") { server.output.scan(OVER).size == nth + 1 && children(server.pid).size == 1 }
    end
    # The second learns within a moment whose child it is now.
    eventually("it to be tied to the stand-in") { File.read("/proc/#{front(server)}/status")[/^PPid:\s+(\d+)/, 1].to_i == server.pid }
    sleep 3
    all = server.descendants
    server.kill
    gone(all)
  end

  def test_a_front_that_is_killed_ends_the_known_pid
    dir = app("config.ru" => APP)
    server, = installed(dir)
    assert_equal 0, command(dir, "upgrade", "--wait").last
    server.wait_for(OVER)
    eventually("the stand-in") { children(server.pid).size == 1 && front(server) != server.pid }
    all = server.descendants
    Process.kill(:KILL, front(server))
    assert_equal 137, server.wait.exitstatus
    gone(all)
  end

  def test_told_to_stop_while_a_new_one_boots
    dir = app("config.ru" => "if File.exist?('slow') then File.write('entered', 'x'); sleep; end\n#{APP}")
    entered = barrier(dir, "entered")
    server, = installed(dir)
    write(dir, "slow" => "")
    server.signal(:USR2)
    entered.wait
    all = server.descendants
    assert_equal 0, server.stop.exitstatus
    gone(all)
  end
end
