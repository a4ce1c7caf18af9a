# A new generation boots beside the old one and takes over when it is ready; no request fails meanwhile.
require_relative "../support/scenario"
require_relative "../support/control"

class RestartTest < Minitest::Test
  include Scenario
  include Control

  VERSION = <<~RUBY.freeze
    version = File.read("version")
    run ->(env) { [200, {}, [version]] }
  RUBY

  # Asks again and again, GET and POST, until told to stop; returns the answers.
  def visitors(server, count = 4)
    stop = false
    threads = Array.new(count) do |number|
      Thread.new do
        answers = []
        Net::HTTP.start("127.0.0.1", server.port) do |http|
          last = false
          until last
            last = stop # one more, which begins after the switch
            request = number.odd? ? Net::HTTP::Post.new("/", "Content-Length" => "0") : Net::HTTP::Get.new("/")
            answer = http.request(request)
            answers << "#{answer.code} #{answer.body}"
          end
        end
        answers
      end
    end
    yield
    stop = true
    threads.flat_map(&:value)
  end

  { "USR1" => ->(server, _) { server.signal(:USR1) },
    "restart_txt" => ->(_, dir) { FileUtils.mkdir_p(File.join(dir, "tmp")); FileUtils.touch(File.join(dir, "tmp/restart.txt")) } }.each do |name, ask|
    define_method("test_#{name.downcase}_switches_generations_without_losing_a_request") do
      dir = app("config.ru" => VERSION, "version" => "old")
      server = serve(dir, "-w", "2", "-t", "2")
      before = server.descendants

      answers = visitors(server) do
        write(dir, "version" => "new")
        ask.call(server, dir)
        server.wait_for(/is ready: .*is ready: /m)
        eventually("the new version") { server.get("/").body == "new" }
      end

      assert_equal ["200 new", "200 old"], answers.uniq.sort
      eventually("the old generation to go") { (server.descendants & before).empty? }
      assert_equal 3, server.descendants.size
      assert_equal 0, server.stop.exitstatus
    end
  end

  def test_a_request_in_the_old_generation_s_hands_is_finished_there
    dir = app("config.ru" => <<~RUBY, "version" => "old")
      version = File.read("version")
      run ->(env) do
        if env["PATH_INFO"] == "/held"
          File.write("entered", "x")
          File.read("barrier")
        end
        [200, {}, [version]]
      end
    RUBY
    gate, entered = barrier(dir), barrier(dir, "entered")
    server = serve(dir, "-w", "1", "-t", "1")
    held = Thread.new { server.get("/held").body }
    entered.wait
    write(dir, "version" => "new")
    server.signal(:USR1)

    assert_equal "new", server.get("/").body
    gate.open
    assert_equal "old", held.value
  end

  def test_a_new_generation_that_fails_leaves_the_old_one_serving
    dir = app("config.ru" => VERSION, "version" => "old")
    server = serve(dir, "-w", "1")
    serving = server.descendants

    answers = visitors(server) do
      write(dir, "config.ru" => "raise 'not today'")
      server.signal(:USR1)
      server.wait_for(/RuntimeError: not today.*the new generation did not start; the old one goes on serving$/m)
    end

    assert_equal ["200 old"], answers.uniq
    eventually("the new preloader to go") { server.descendants.sort == serving.sort }
    write(dir, "config.ru" => VERSION, "version" => "mended")
    server.signal(:USR1)
    server.wait_for(/is ready: .*is ready: /m)
    eventually("the mended version") { server.get("/").body == "mended" }
  end

  def test_a_restart_while_one_is_under_way_is_not_forgotten
    dir = app("config.ru" => "loaded = File.read('version')\nif File.exist?('gated')\n  File.write('entered', 'x')\n  File.read('barrier')\nend\n" \
      "run ->(env) { [200, {}, [loaded]] }", "version" => "one")
    gate, entered = barrier(dir), barrier(dir, "entered")
    server = serve(dir, "-w", "1")
    write(dir, "version" => "two", "gated" => "")
    server.signal(:USR1)
    entered.wait

    write(dir, "version" => "three")
    File.delete(File.join(dir, "gated"))
    server.signal(:USR1)
    # The order is in the signal's wake: a request that is answered afterwards shows that it was heard.
    assert_equal "one", server.get("/").body
    gate.open

    eventually("the third version") { server.get("/").body == "three" }
  end

  def test_touching_restart_txt_starts_an_app_that_had_failed
    dir = app("config.ru" => "raise 'broken'", "version" => "mended")
    server = serve(dir, "-e", "production", ready: false)
    server.wait_for(/RuntimeError: broken/)
    write(dir, "config.ru" => VERSION, "tmp/restart.txt" => "")
    server.wait_for(/ is ready: /)
    assert_equal "mended", server.get("/").body
  end

  def test_generations_are_told_on_the_control_socket
    dir = app("config.ru" => <<~RUBY)
      run ->(env) do
        if env["PATH_INFO"] == "/held"
          File.write("entered", "x")
          File.read("barrier")
        end
        [200, {}, ["ok"]]
      end
    RUBY
    gate, entered = barrier(dir), barrier(dir, "entered")
    server = serve(dir, "-w", "2", "-t", "1")
    server.get("/")
    held = Thread.new { server.get("/held").body }
    entered.wait
    told = generations(server)
    assert_equal ["ready", nil, 2], told.values_at("state", "failure", "workers_wanted")
    first = told["generations"].fetch(0)
    assert_equal ["current", 1, "ready", dir, false, server.preloaders.first], first.values_at("role", "number", "phase", "release", "reforked", "preloader_pid")
    assert_match(/ruby \d/, first["versions"])
    assert_equal server.workers.sort, first["workers"].map { |worker| worker["pid"] }.sort
    assert_equal [1, 1], %w[answered busy].map { |count| first["workers"].sum { |worker| worker[count] } }

    server.signal(:USR1)
    server.wait_for(/is ready: .*is ready: /m)
    roles = -> { generations(server)["generations"].map { |one| [one["role"], one["number"], one["workers"].count { |worker| worker["leaving"] }] } }
    eventually("one worker to leave") { roles.call == [["current", 2, 0], ["leaving", 1, 1]] }
    gate.open
    assert_equal "ok", held.value
    eventually("the first generation to go") { roles.call == [["current", 2, 0]] }
  end

  LOADS = <<~RUBY.freeze
    loaded = File.read("loads").lines.size
    File.write("loads", "x\n", mode: "a")
    raise "broken" if File.exist?("broken")
    if File.exist?("gated")
      File.write("entered", "x")
      File.read("barrier")
    end
    run ->(env) { [200, {}, [loaded.to_s]] }
  RUBY

  def test_with_always_restart_txt_each_request_has_new_code
    dir = app("config.ru" => LOADS, "loads" => "", "tmp/always_restart.txt" => "")
    server = serve(dir, "-w", "1")
    first = Integer(server.get("/").body)
    assert_equal [first + 1, first + 2], Array.new(2) { Integer(server.get("/").body) }

    gate, entered = barrier(dir), barrier(dir, "entered")
    write(dir, "gated" => "")
    asking = [Thread.new { server.get("/").body }]
    entered.wait
    # Those that come while it boots wait for the same one.
    asking.concat(Array.new(5) { Thread.new { server.get("/").body } })
    eventually("all to be asked") { generations(server)["restarts_under_way"] == 6 }
    File.delete(File.join(dir, "gated"))
    gate.open
    assert_equal [(first + 3).to_s], asking.map(&:value).uniq

    write(dir, "broken" => "")
    answer = server.get("/")
    assert_equal ["503", true], [answer.code, answer.body.include?("broken")]
    File.delete(File.join(dir, "broken"))
    File.delete(File.join(dir, "tmp/always_restart.txt"))
    eventually("the file to be missed") { Array.new(2) { server.get("/").body }.uniq.one? }
  end

  def test_rails_restart_touches_what_is_watched
    # What `bin/rails restart` does (railties, lib/rails/commands/restart).
    rails_restart = 'require "fileutils"; FileUtils.mkdir_p "tmp"; FileUtils.touch "tmp/restart.txt"'
    dir = app("config.ru" => VERSION, "version" => "old")
    server = serve(dir)
    write(dir, "version" => "new")
    assert system("ruby", "-e", rails_restart, chdir: dir)
    server.wait_for(/tmp\/restart.txt was touched(?:.*\n)*.* is ready: /)
    assert_equal "new", server.get("/").body
  end

  def test_failed_starts_that_nobody_waits_for_are_tried_again_with_a_pause
    dir = app("config.ru" => VERSION, "version" => "old")
    server = serve(dir, "-e", "production", "--ready-path", "off")
    write(dir, "config.ru" => "raise 'not today'")
    touch = lambda do |later|
      # At once: a look in between would see two times.
      write(dir, "tmp/new" => "")
      FileUtils.touch(File.join(dir, "tmp/new"), mtime: Time.now + later)
      File.rename(File.join(dir, "tmp/new"), File.join(dir, "tmp/restart.txt"))
    end
    failures = -> { server.output.scan("the new generation did not start").size }
    [1, 2].each do |time|
      touch.call(time)
      eventually("start #{time} to fail") { failures.call == time }
    end
    touch.call(3)
    server.wait_for(/tmp\/restart.txt was touched, after 2 failed starts in \d s$/)
    # Somebody who asks does not wait, and that was all: the pause has nothing left to do.
    write(dir, "config.ru" => VERSION, "version" => "mended")
    out, status = command(dir, "restart", "--wait")
    assert_equal 0, status, out
    assert_equal ["mended", 2], [server.get("/").body, failures.call]
  end
end
