# A worker that has answered enough becomes the mold of the next workers: without losing a request, and only if a fork does no harm.
require_relative "../support/scenario"

class ReforkTest < Minitest::Test
  include Scenario

  # Remembers who was asked first for each path, and for how long: what a request leaves in memory.
  MEMO = <<~'RUBY'
    version = File.read("version")
    memo = {}
    $told = []
    run ->(env) do
      memo[env["PATH_INFO"]] ||= Process.pid
      Thread.new { sleep }.name = "beat" if env["PATH_INFO"] == "/thread"
      $socket = TCPSocket.new("127.0.0.1", env["QUERY_STRING"].to_i) if env["PATH_INFO"] == "/connect"
      [200, { "content-type" => "text/plain" }, ["#{version} #{Process.pid} #{memo["/"]} #{$told.join(",")}"]]
    end
  RUBY
  REFORKED = /is reforked from worker (\d) \(pid (\d+)\) after (\d+) requests: /

  Answer = Struct.new(:version, :pid, :first, :told)

  def ask(server, path = "/")
    answer = server.get(path)
    assert_equal "200", answer.code
    version, pid, first, told = answer.body.split(" ", 4)
    Answer.new(version, pid.to_i, first.to_i, told.to_s)
  end

  def reforking(*arguments, files: {}, after: 10)
    @dir = app({ "config.ru" => MEMO, "version" => "old" }.merge(files))
    # Before a stand-in comes.
    serve(@dir, "-w", "2", "-t", "2", "--refork-after", after.to_s, *arguments).tap { |server| @first = server.workers }
  end

  # Asks until a worker has become the mold; answers its pid.
  def refork(server)
    until (match = server.output.match(REFORKED))
      ask(server)
    end
    assert_operator match[3].to_i, :>=, 10
    match[2].to_i
  end

  def gone?(pid) = server_state(pid).nil?

  def server_state(pid)
    File.read("/proc/#{pid}/stat").rpartition(") ").last.split.then { |fields| fields[0] == "Z" ? nil : fields }
  rescue SystemCallError
    nil
  end

  # Waits until the mold's workers are the only ones, and answers them.
  def settled(server, mold, count: 2)
    eventually("its workers alone") { (now = server.workers).size == count && now.all? { |pid| parent(pid) == mold } && now }
  end

  def parent(pid) = server_state(pid)&.at(1).to_i

  def test_under_load_no_request_fails_and_the_new_workers_are_warm
    server = reforking(after: 300)
    before = server.descendants
    stop = false
    visitors = Array.new(4) do |number|
      Thread.new do
        answers = []
        Net::HTTP.start("127.0.0.1", server.port) do |http|
          until stop
            request = number.odd? ? Net::HTTP::Post.new("/", "Content-Length" => "0") : Net::HTTP::Get.new("/")
            answer = http.request(request)
            answers << [answer.code, *answer.body.split.map(&:to_i).drop(1)]
          end
        end
        answers
      end
    end
    match = server.wait_for(REFORKED)
    mold = match[2].to_i
    eventually("the old preloader to go") { (before - [mold]).all? { |pid| gone?(pid) } }
    settled(server, mold)
    stop = true
    answers = visitors.flat_map(&:value)

    assert_equal ["200"], answers.map(&:first).uniq
    assert_includes before, mold
    eventually("the mold to be the front's own child") { parent(mold) == server.pid }
    assert_equal [mold], server.preloaders
    assert_equal [mold] * 2, server.workers.map { |pid| parent(pid) }
    pids = Array.new(20) { ask(server) }
    assert_equal [mold], pids.map(&:first).uniq, "what the mold's first request left is there"
    refute_includes before, pids.first.pid
    assert_equal 0, server.stop.exitstatus
  end

  def test_a_request_in_the_worker_s_hands_is_finished_and_others_are_served_meanwhile
    dir = app("config.ru" => <<~'RUBY')
      run ->(env) do
        if env["PATH_INFO"] == "/held"
          File.write("entered", Process.pid.to_s)
          File.read("barrier")
        end
        [200, {}, [Process.pid.to_s]]
      end
    RUBY
    gate, entered = barrier(dir), barrier(dir, "entered")
    server = serve(dir, "-w", "1", "-t", "2", "--refork-after", "10")
    held = Thread.new { server.get("/held").body.to_i }
    worker = entered.wait.to_i
    # The stand-in answers when the worker gets nothing more.
    eventually("the stand-in") { server.get("/").body.to_i != worker }
    refute_match REFORKED, server.output
    gate.open
    assert_equal worker, held.value
    assert_equal worker.to_s, server.wait_for(REFORKED)[2]
    eventually("a warm worker") { parent(server.get("/").body.to_i) == worker }
  end

  def test_only_once
    server = reforking
    refork(server)
    60.times { ask(server) }
    server.signal(:PWR)
    server.wait_for(/State of /)
    assert_equal 1, server.output.scan(REFORKED).size
  end

  def refused(server, pattern)
    match = server.wait_for(/^\* \S+\.(\d) is not reforked from and goes on serving: (.*)$/)
    assert_match pattern, match[2]
    eventually("the stand-in to go") { server.workers.sort == @first.sort }
    60.times { assert_includes @first, ask(server).pid }
    assert_equal 1, server.output.scan("is not reforked").size
    refute_match REFORKED, server.output
    answers = Array.new(2) { Array.new(4) { Thread.new { ask(server).pid } }.map(&:value) }
    assert_empty answers.flatten - @first
  end

  def test_a_thread_of_the_application_keeps_the_worker_as_it_is
    server = reforking
    ask(server, "/thread") until server.output.include?("is not reforked")
    refused(server, /\Athread "beat" started at \S+config\.ru:6 runs.*\. End it in before_refork of config\/puma\.rb \(or set refork_after = 0\)\z/)
  end

  def test_a_connection_of_the_application_keeps_the_worker_as_it_is
    TCPServer.open("127.0.0.1", 0) do |other|
      server = reforking
      ask(server, "/connect?#{other.addr[1]}") until server.output.include?("is not reforked")
      refused(server, /\Aa connection to 127\.0\.0\.1:#{other.addr[1]} is open \(descriptor \d+, TCPSocket\)\. End it/)
    end
  end

  HOOKS = <<~'RUBY'
    fork_worker 10
    %i[before_fork before_refork after_refork before_thread_exit].each { |name| send(name) { ($told ||= []) << "#{name}:#{Process.pid}" } }
    before_worker_boot { |index| $told << "boot#{index}:#{Process.pid}" }
  RUBY

  def test_hooks_run_in_the_mold_and_in_its_workers
    dir = app("config.ru" => MEMO, "version" => "old", "config/puma.rb" => HOOKS)
    server = serve(dir, "-w", "1", "-t", "1")
    preloader, = server.preloaders
    mold = refork(server)
    answer = eventually("a new worker") { (answer = ask(server)).pid != mold && parent(answer.pid) == mold && answer }
    assert_equal ["before_fork:#{preloader}", "boot0:#{mold}", "before_thread_exit:#{mold}", "before_refork:#{mold}", "before_fork:#{mold}",
                  "boot0:#{answer.pid}"], answer.told.split(",")
  end

  def test_a_restart_loads_the_code_anew
    server = reforking
    mold = refork(server)
    write(@dir, "version" => "new")
    server.signal(:USR1)
    server.wait_for(/ is ready: .*is ready: /m)
    eventually("the new version") { ask(server).version == "new" }
    eventually("the mold to go") { gone?(mold) }
    assert_equal 1, server.preloaders.size
    assert_equal 2, server.workers.size
    # And that generation's workers are counted anew.
    ask(server) until server.output.scan(REFORKED).size == 2
    assert_equal "new", ask(server).version
  end

  def test_a_worker_that_dies_is_forked_from_the_mold
    server = reforking
    mold = refork(server)
    victim, = settled(server, mold)
    Process.kill(:KILL, victim)
    left = eventually("another worker") { (left = server.workers).size == 2 && !left.include?(victim) && left }
    assert_equal [mold] * 2, left.map { |pid| parent(pid) }
    5.times { assert_equal mold, ask(server).first }
  end

  def test_workers_are_added_and_taken_away
    server = reforking
    mold = refork(server)
    server.signal(:TTIN)
    eventually("three workers") { server.workers.count { |pid| parent(pid) == mold } == 3 }
    server.signal(:TTOU)
    server.wait_for(/: 2 workers wanted now/)
    server.signal(:TTOU)
    eventually("one worker") { server.workers.size == 1 }
    assert_equal mold, ask(server).first
  end

  def test_a_mold_that_dies_is_followed_by_a_new_preloader
    server = reforking
    mold = refork(server)
    workers = settled(server, mold)
    eventually("the old preloader to go") { server.preloaders == [mold] }
    write(@dir, "version" => "new")
    Process.kill(:KILL, mold)
    server.wait_for(/the preloader \(pid #{mold}\) was killed by signal 9 \(KILL\); starting it again/)
    server.wait_for(/ is ready: .*is ready: /m)
    assert_equal "new", ask(server).version
    eventually("its workers to go") { workers.all? { |pid| gone?(pid) } }
  end

  def test_all_go_with_the_front
    server = reforking
    mold = refork(server)
    eventually("the old preloader to go") { server.preloaders == [mold] }
    left = server.descendants
    Process.kill(:KILL, server.pid)
    eventually("all to go") { left.all? { |pid| gone?(pid) } }
  end

  def test_the_old_generation_goes_on_when_the_new_one_fails
    hooks = "before_worker_boot { raise 'not from a mold' if File.exist?('promoted') }\nbefore_refork { File.write('promoted', '') }\n"
    server = reforking(files: { "config/puma.rb" => hooks })
    ask(server) until server.output.include?("the new generation did not start; the old one goes on serving")
    assert_match(/not from a mold/, server.output)
    eventually("the failed generation to go") { server.preloaders.size == 1 && server.workers.size == 2 }
    assert_equal server.preloaders * 2, server.workers.map { |pid| parent(pid) }
    20.times { ask(server) }
  end

  def test_with_the_application_loaded_in_each_worker
    server = reforking(files: { "paceline.toml" => "preload = false\n" })
    mold = refork(server)
    settled(server, mold)
    5.times { assert_equal mold, ask(server).first }
  end
end
