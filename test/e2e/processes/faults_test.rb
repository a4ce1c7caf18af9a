# Processes die, hang and babble: what that costs a client, and what is left behind (nothing).
require_relative "../support/scenario"

class FaultsTest < Minitest::Test
  include Scenario

  HELLO = 'run ->(env) { [200, {}, ["hello"]] }'.freeze
  # Says who it is on `entered`, then waits at `barrier`.
  HELD = 'run ->(env) { File.write("entered", Process.pid.to_s); File.read("barrier"); [200, {}, [Process.pid.to_s]] }'.freeze

  def gone?(pid)
    File.read("/proc/#{pid}/stat").split(") ").last.start_with?("Z")
  rescue SystemCallError
    true
  end

  def all_gone(pids)
    refute_empty pids
    eventually("#{pids} to go") { pids.all? { |pid| gone?(pid) } }
  end

  def post(server, path = "/") = server.request(Net::HTTP::Post.new(path))

  def test_nothing_outlives_the_front
    dir = app("config.ru" => HELD)
    barrier(dir)
    entered = barrier(dir, "entered")
    server = serve(dir, "-w", "2", "-t", "1")
    asking = Thread.new { server.get("/") rescue $! }
    entered.wait
    ruby = server.descendants
    assert_equal 3, ruby.size

    server.kill

    all_gone(ruby)
    asking.join
  end

  def test_a_preloader_that_can_not_listen_dies_with_the_front
    dir = app("config.ru" => 'File.write("entered", "x"); Process.kill(:STOP, Process.pid)')
    entered = barrier(dir, "entered")
    server = serve(dir, ready: false)
    entered.wait
    ruby = server.descendants

    server.kill

    all_gone(ruby)
  end

  def test_a_killed_preloader_takes_its_workers_along_and_waiting_requests_are_answered_by_its_successor
    dir = app("config.ru" => HELD)
    gate, entered = barrier(dir), barrier(dir, "entered")
    server = serve(dir, "-w", "1", "-t", "1")
    before = server.descendants
    in_hand = Thread.new { server.get("/") }
    first = entered.wait
    waiting = Thread.new { server.get("/") }

    Process.kill(:KILL, server.preloaders.first)

    all_gone(before)
    second = entered.wait
    gate.open
    assert_equal second, entered.wait
    gate.open
    assert_equal [["200", second]] * 2, [in_hand.value, waiting.value].map { |answer| [answer.code, answer.body] }
    refute_equal first, second
    server.wait_for(/the preloader \(pid \d+\) was killed by signal 9 \(KILL\); starting it again$/)
  end

  def test_a_killed_worker_costs_only_what_was_in_its_hands
    dir = app("config.ru" => <<~RUBY)
      run ->(env) do
        next [200, {}, ["free"]] if env["PATH_INFO"] == "/free"
        File.write("entered", Process.pid.to_s)
        File.read("barrier")
        [200, {}, [env["REQUEST_METHOD"], " ", Process.pid.to_s]]
      end
    RUBY
    gate, entered = barrier(dir), barrier(dir, "entered")
    server = serve(dir, "-w", "1", "-t", "2")
    get = Thread.new { server.get("/") }
    pid = entered.wait
    posted = Thread.new { post(server) }
    assert_equal pid, entered.wait
    queued = Thread.new { server.get("/free") }

    Process.kill(:KILL, Integer(pid))

    assert_equal "502", posted.value.code
    assert_equal "free", queued.value.body
    second = entered.wait
    gate.open
    assert_equal "GET #{second}", get.value.body
    refute_equal pid, second
    # At once, or when the one that was killed would have lived for a moment.
    server.wait_for(/\.1 \(pid #{pid}\) was killed by signal 9 \(KILL\); starting another(?: in 0\.\d s)?$/)
  end

  # Not only told to: each of its threads has stopped.
  def stop(pid)
    Process.kill(:STOP, pid)
    eventually("#{pid} to have stopped") { Dir["/proc/#{pid}/task/*/stat"].all? { |file| File.read(file)[/\) (\w)/, 1] == "T" } }
  end

  def test_workers_killed_under_load_cost_no_request_that_may_be_asked_twice
    server = serve(app("config.ru" => HELLO), "-w", "2", "-t", "2")
    stop = false
    visitors = Array.new(4) do
      Thread.new do
        answers = Hash.new(0)
        Net::HTTP.start("127.0.0.1", server.port) { |http| answers[http.get("/").code] += 1 until stop }
        answers
      end
    end
    4.times do
      before = server.workers
      Process.kill(:KILL, before.first)
      eventually("another worker") { (now = server.workers).size == 2 && !now.include?(before.first) }
    end
    stop = true
    assert_equal [["200"]], visitors.map { |visitor| visitor.value.keys }.uniq
    assert_equal 4, server.output.scan(/was killed by signal 9/).size
  end

  def test_a_request_that_its_killed_worker_had_not_read_is_asked_again_whatever_its_method
    server = serve(app("config.ru" => 'run ->(env) { [200, {}, [env["REQUEST_METHOD"], " ", Process.pid.to_s]] }'), "-w", "1", "-t", "1")
    first = server.workers.first
    stop(first)
    posted = Thread.new { post(server) }
    eventually("the request to be handed over") { server.state[:busy] == 1 }

    Process.kill(:KILL, first)

    answer = posted.value.body
    assert_match(/\APOST \d+\z/, answer)
    refute_equal "POST #{first}", answer
  end

  def test_requests_wait_while_what_is_to_replace_a_killed_preloader_is_killed_too
    dir = app("config.ru" => <<~RUBY)
      if File.exist?("gated")
        File.write("entered", Process.pid.to_s)
        File.read("barrier")
      end
      run ->(env) { [200, {}, ["hello"]] }
    RUBY
    gate, entered = barrier(dir), barrier(dir, "entered")
    server = serve(dir, "-w", "1", "-e", "production")
    write(dir, "gated" => "")
    Process.kill(:KILL, server.preloaders.first)
    booting = entered.wait
    asking = [Thread.new { server.get("/") }, Thread.new { post(server) }]
    eventually("the requests to wait") { server.state[:waiting] == 2 }

    Process.kill(:KILL, Integer(booting))

    refute_equal booting, entered.wait
    gate.open
    assert_equal [%w[200 hello]] * 2, asking.map(&:value).map { |answer| [answer.code, answer.body] }
    server.wait_for(/was killed by signal 9 \(SIGKILL\).*: starting it again$/m)
  end

  # Notes each try; `/held` waits at the barrier, `/well` is well.
  KILLING = <<~RUBY.freeze
    run ->(env) do
      next [200, {}, [Process.pid.to_s]] if env["PATH_INFO"] == "/well"
      File.open("tries", "a") { |file| file.puts "\#{env["REQUEST_METHOD"]} \#{Process.pid}" }
      (File.write("entered", "x"); File.read("barrier")) if env["PATH_INFO"] == "/held"
      next [200, {}, ["survived"]] if env["QUERY_STRING"] == "survives"
      Process.kill(:KILL, Process.pid)
      sleep
    end
  RUBY

  def tries(dir) = File.readlines(File.join(dir, "tries"), chomp: true).map(&:split)

  def test_a_request_that_kills_its_worker_is_tried_twice_and_then_refused_for_a_while
    dir = app("config.ru" => KILLING)
    server = serve(dir, "-w", "1")

    assert_equal "502", server.get("/").code
    assert_equal %w[GET GET], tries(dir).map(&:first)
    refute_equal(*tries(dir).map(&:last))
    refused = server.get("/")
    assert_equal "503", refused.code
    assert_includes 1..10, Integer(refused["retry-after"])
    assert_equal 2, tries(dir).size
    server.wait_for(/"GET \/ HTTP\/1\.1" 502 .*note="two workers died with this request"$/)
    server.wait_for(/"GET \/ HTTP\/1\.1" 503 .*note="refused: workers died with this request"$/)

    # What must not be asked twice has one try each time; another request is not refused.
    assert_equal(%w[502 502 503], Array.new(3) { post(server).code })
    assert_equal %w[GET GET POST POST], tries(dir).map(&:first)
    assert_equal "200", server.get("/well").code
    assert_equal 0, server.stop.exitstatus
  end

  def test_a_request_that_kills_its_worker_kills_no_other_request_when_it_is_asked_again
    dir = app("config.ru" => <<~RUBY)
      run ->(env) do
        if env["PATH_INFO"] == "/kill"
          File.write("entered", Process.pid.to_s)
          File.read("barrier")
          Process.kill(:KILL, Process.pid)
          sleep
        end
        [200, {}, [Process.pid.to_s]]
      end
    RUBY
    gate, entered = barrier(dir), barrier(dir, "entered")
    server = serve(dir, "-w", "2", "-t", "3")
    killing = Thread.new { server.get("/kill") }
    first = entered.wait
    gate.open
    second = entered.wait
    # It is there alone: nobody else is given to that worker.
    assert_equal [false], Array.new(6) { server.get("/").body == second }.uniq
    gate.open
    assert_equal "502", killing.value.code
    refute_equal first, second
  end

  # The first is tried twice and the others once: everybody else is answered all the time.
  def test_workers_that_have_served_are_replaced_without_a_pause
    server = serve(app("config.ru" => KILLING), "-w", "1")
    codes = Array.new(6) do |n|
      assert_equal "200", server.get("/well").code
      server.get("/?#{n}").code
    end
    assert_equal ["502"] * 6, codes
    server.wait_for(/(?:KILL\); starting another.*){6}/m)
    assert_equal [nil], server.output.scan(/KILL\); starting another(?: in (\S+) s)?$/).flatten.uniq
  end

  # They could start, so the next one can: it does not wait ever longer.
  def test_workers_that_were_ready_are_replaced_at_once
    server = serve(app("config.ru" => KILLING), "-w", "1")
    5.times { |n| assert_equal "502", post(server, "/?#{n}").code }
    server.wait_for(/(?:KILL\); starting another.*){5}/m)
    assert_empty server.output.scan(/KILL\); starting another(?: in (\S+) s)?$/).flatten.uniq - [nil, "0.0", "0.1"]
  end

  def test_crashing_requests_with_different_queries_leave_the_site_up
    server = serve(app("config.ru" => KILLING), "-w", "2", "-t", "2")
    stop = false
    crashing = Array.new(2) { |who| Thread.new { n = 0; (server.get("/?q=#{who}#{n += 1}") rescue nil; sleep 0.1) until stop } }
    answers = Array.new(60) { sleep 0.05; server.get("/well").code }
    stop = true
    crashing.each(&:join)
    assert_equal({ "200" => 60 }, answers.tally)
  end

  # Its second try is alone for a second only; what it dies beside then proves nothing.
  def test_a_slow_request_is_answered_though_two_workers_were_killed_beside_it
    dir = app("config.ru" => KILLING)
    held, entered = barrier(dir), barrier(dir, "entered")
    server = serve(dir, "-w", "1", "-t", "2")
    slow = Thread.new { server.get("/held?survives").code }
    2.times do |n|
      entered.wait
      assert_equal "502", post(server, "/?#{n}").code
    end
    entered.wait
    held.open
    assert_equal "200", slow.value
  end

  def test_requests_wait_for_an_app_that_boots_slowly
    dir = app("config.ru" => 'File.write("entered", "x"); File.read("barrier"); ' + HELLO)
    gate, entered = barrier(dir), barrier(dir, "entered")
    server = serve(dir, ready: false)
    entered.wait
    asking = Array.new(3) { Thread.new { server.get("/").body } }
    server.connect do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
      gate.open
      assert_match(/\AHTTP\/1\.1 200 .*hello\z/m, socket.read)
    end
    assert_equal %w[hello hello hello], asking.map(&:value)
  end

  def test_an_app_that_does_not_load_in_the_preloader_is_loaded_in_each_worker
    dir = app("config.ru" => "loaded = Process.pid\nrun ->(env) { [200, {}, [(loaded == Process.pid).to_s]] }",
      "paceline.toml" => "preload = false\n")
    assert_equal "true", serve(dir).get("/").body
  end

  def test_garbage_on_the_outputs_is_made_harmless
    dir = app("config.ru" => <<~'RUBY')
      $stdout.sync = true
      $stdout.write("\xff\xfe\x00\x01 binary\n".b, "x" * 300_000, "\n")
      $stderr.write("\e]0;title\a", "no newline at the end")
      run ->(env) { $stdout.puts("from a worker \xc3"); [200, {}, ["hello"]] }
    RUBY
    server = serve(dir)

    assert_equal "hello", server.get("/").body

    server.wait_for(/binary$/)
    server.wait_for(/\.1\] from a worker \uFFFD$/)
    refute_match(/[\x00-\x08\x0b-\x1a]/, server.output)
    assert server.output.valid_encoding?
    assert_operator server.output.each_line.map(&:size).max, :<, 20_000
  end

  def test_an_app_that_closes_its_outputs_is_served
    dir = app("config.ru" => "$stdout.close; $stderr.close; " + HELLO)
    server = serve(dir)
    assert_equal "hello", server.get("/").body
    assert_equal 0, server.stop.exitstatus
  end

  def test_a_failure_is_told_even_when_the_outputs_are_closed
    dir = app("config.ru" => '$stdout.close; $stderr.close; raise "no outputs"')
    server = serve(dir, ready: false)
    server.wait_for(/RuntimeError: no outputs/)
  end

  def test_a_worker_stuck_in_a_request_is_replaced_and_says_where_it_was
    dir = app("config.ru" => <<~RUBY, "paceline.toml" => "app_hard_timeout = \"1s\"\n")
      def stuck_here = sleep
      run ->(env) { env["PATH_INFO"] == "/stuck" ? stuck_here : [200, {}, [Process.pid.to_s]] }
    RUBY
    server = serve(dir, "-w", "1", "-t", "1")
    first = server.get("/").body

    stuck = server.get("/stuck")

    assert_equal "504", stuck.code
    second = server.get("/").body
    refute_equal first, second
    assert server.wait_for(/\.1 thread 1: GET \/stuck .*app_hard_timeout; replacing the worker$/)
    server.wait_for(/\.1 thread 1 is here:\n(    .*\n)*    \S+config\.ru:1:in .*stuck_here/)
    all_gone([Integer(first)])
  end

  def test_a_slow_request_is_logged_with_its_backtrace_and_answered
    dir = app("config.ru" => <<~RUBY, "paceline.toml" => "app_soft_timeout = \"300ms\"\n")
      def slow_here = File.read("barrier")
      run ->(env) { slow_here; [200, {}, [Process.pid.to_s]] }
    RUBY
    gate = barrier(dir)
    server = serve(dir, "-w", "1", "-t", "1")
    asking = Thread.new { server.get("/slow") }

    server.wait_for(/\.1 thread 1: GET \/slow has been in the app for 300 ms$/)
    server.wait_for(/\.1 thread 1 is here:\n(    .*\n)*    \S+config\.ru:1:in .*slow_here/)
    gate.open

    assert_equal ["200", server.workers.first.to_s], asking.value.then { |answer| [answer.code, answer.body] }
  end

  def test_a_preloader_that_does_not_fork_is_replaced
    server = serve(app("config.ru" => HELLO, "paceline.toml" => "start_timeout = \"4s\"\n"), "-w", "1")
    preloader = server.preloaders.first
    stop(preloader)
    Process.kill(:KILL, server.workers.first)

    assert_equal "hello", server.get("/").body
    server.wait_for(/\.1 \(pid \d+\) has closed its sockets, and its preloader does not tell how it ended; starting another$/)
    server.wait_for(/: the preloader \(pid #{preloader}\) has not forked a worker within 4s; killing it$/)
    all_gone([preloader])
    assert_equal 0, server.stop.exitstatus
  end

  def test_a_preloader_that_does_not_fork_is_replaced_while_its_other_workers_serve
    dir = app("config.ru" => "run ->(env) { [200, {}, [Process.pid.to_s]] }", "paceline.toml" => "start_timeout = \"4s\"\n")
    server = serve(dir, "-w", "2", "-t", "1")
    preloader, (killed, left) = server.preloaders.first, server.workers
    stop(preloader)
    Process.kill(:KILL, killed)

    server.wait_for(/: the preloader \(pid #{preloader}\) has not forked a worker within 4s; starting another beside it$/)
    server.wait_for(/ is ready: .* is ready: /m)
    refute_includes [killed, left].map(&:to_s), server.get("/").body
    all_gone([preloader, left])
    assert_equal 0, server.stop.exitstatus
  end

  def test_a_boot_hook_that_raises_in_a_replacement_is_reported_and_tried_again
    dir = app("config.ru" => HELLO, "config/puma.rb" => <<~RUBY)
      workers 1
      on_worker_boot { raise "no cache server" if File.exist?("broken") }
    RUBY
    server = serve(dir)
    write(dir, "broken" => "")
    Process.kill(:KILL, server.workers.first)

    server.wait_for(/RuntimeError: no cache server/)
    File.delete(File.join(dir, "broken"))

    assert_equal "hello", server.get("/").body
  end
end
