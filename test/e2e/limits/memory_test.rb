# What memory the processes are said to use, what made a worker grow, and what is done with one that uses too much.
require_relative "../support/control"
require_relative "../support/scenario"

class MemoryTest < Minitest::Test
  include Scenario
  include Control

  MB = 1024 * 1024

  # Keeps what /leak asks for, and holds it for the time of the request alone at /loan.
  LEAK = <<~'RUBY'
    $kept = []
    run ->(env) do
      case env["PATH_INFO"]
      when "/leak" then $kept << ("x" * env["QUERY_STRING"].to_i)
      when "/objects" then $kept << Array.new(env["QUERY_STRING"].to_i) { +"an object of forty bytes, and more" }
      end
      [200, {}, [Process.pid.to_s]]
    end
  RUBY

  # Another reading of the same: every mapping of /proc/PID/smaps, added up here.
  def smaps(pid)
    sums = Hash.new(0)
    File.foreach("/proc/#{pid}/smaps") { |line| sums[$1] += $2.to_i * 1024 if line =~ /\A(\w+): +(\d+) kB/ }
    status = File.read("/proc/#{pid}/status")
    { "rss" => sums["Rss"], "pss" => sums["Pss"], "private_dirty" => sums["Private_Dirty"] + sums["Private_Hugetlb"],
      "private_clean" => sums["Private_Clean"], "shared" => sums["Shared_Clean"] + sums["Shared_Dirty"], "swap" => sums["Swap"],
      "virtual" => status[/^VmSize:\s+(\d+) kB/, 1].to_i * 1024 }
  end

  # The block takes the account. PSS changes with each process that runs the same program or ends, so both are read again if it has.
  def assert_agrees(pid, name)
    told, real = nil
    5.times do
      told, real = yield, smaps(pid)
      break if (told["pss"] - real["pss"]).abs <= tolerated(real["pss"])
    end
    real.each { |key, bytes| assert_in_delta bytes, told[key], tolerated(bytes), "#{key} of #{name}" }
    assert_in_delta real["shared"] / real["rss"].to_f, told["shared_share"], 0.05
  end

  def tolerated(bytes) = [bytes * 0.03, 512 * 1024].max

  def test_the_account_agrees_with_every_mapping_of_every_process
    server = serve(app("config.ru" => LEAK), "-w", "2", "-t", "1")
    8.times { server.get("/leak?#{2 * MB}") }
    account = control(server, "/memory")
    generation, = account["sites"].values.first["generations"]
    assert_equal server.workers.sort, generation["workers"].map { |worker| worker["pid"] }.sort
    assert_equal server.preloaders, [generation["preloader"]["pid"]]

    now = -> { control(server, "/memory") }
    of_generation = -> { now.call["sites"].values.first["generations"].first }
    assert_agrees(server.pid, "the front") { now.call["front"] }
    assert_agrees(generation["preloader"]["pid"], "the preloader") { of_generation.call["preloader"] }
    generation["workers"].each do |worker|
      assert_agrees(worker["pid"], "worker #{worker["index"]}") { of_generation.call["workers"].find { |one| one["pid"] == worker["pid"] } }
    end
    sum = ->(key) { generation["workers"].sum { |worker| worker[key] } }
    assert_equal sum["private_dirty"], generation["of_workers"]["private_dirty"]
    assert_equal sum["rss"] + generation["preloader"]["rss"] + account["front"]["rss"], account["all"]["rss"]
    assert_operator sum["private_dirty"], :>=, 16 * MB
    assert_operator sum["rss"], :>, sum["private_dirty"], "what is shared counts once for each in RSS"
    assert_equal 64 * MB, account["front"]["cache"]["budget"]
    assert_equal File.read("/proc/meminfo")[/MemTotal: +(\d+)/, 1].to_i * 1024, account["machine"]["total"]
  end

  def test_ruby_tells_what_its_heap_holds
    server = serve(app("config.ru" => LEAK), "-w", "1", "-t", "1")
    heap = ->(process) { control(server, "/memory")["sites"].values.first["generations"][0].then(&process)["heap"] }
    worker = ->(generation) { generation["workers"][0] }
    before = heap[worker]
    server.get("/objects?200000")
    after = heap[worker]
    assert_operator after["live"], :>=, before["live"] + 150_000
    assert_operator after["slots"], :>=, after["live"]
    assert_in_delta after["slots"], after["pools"].sum { |pool| pool["slots"] }, after["slots"] * 0.02
    assert_operator after["bytes"], :>=, after["slots"] * 40
    assert_includes 0.0..1.0, after["gc_share"]
    assert_operator heap[->(generation) { generation["preloader"] }]["live"], :>, 1000
  end

  def test_the_command_says_what_it_means_and_which_route_made_a_worker_grow
    dir = app("config.ru" => LEAK)
    server = serve(dir, "-w", "2", "-t", "1")
    # Worked with once, so that each has been looked at.
    eventually("a first look") { workers(server).all? { |worker| worker["growth"] } }
    20.times { server.get("/") }
    10.times { server.get("/leak?#{6 * MB}") }
    worker = eventually("the growth to be seen") do
      server.get("/")
      # It is the readings without the one and with the other that tell them apart.
      workers(server).find { |one| one["growth"]["routes"].first&.then { |route| route["route"] == "GET /leak" && route["bytes"] > 10 * MB } }
    end
    assert_operator worker["growth"]["now"] - worker["growth"]["born"], :>, 10 * MB

    out, status = command(dir, "memory")
    assert_equal 0, status, out
    assert_match(/\A\S+: 2 workers really cost [\d.]+ MB, not the [\d.]+ MB that their RSS adds up to\. The preloader, /, out)
    assert_match(/^\S+: worker \d grew by [\d.]+ MB since it was forked, most with GET \/leak \([\d.]+ MB in \d+ requests?\)\.$/, out)
    assert_match(/^front +#{server.pid} /, out)
    assert_match(/^  preloader +#{server.preloaders.first} /, out)
    server.workers.each { |pid| assert_match(/^  worker \d +#{pid} /, out) }
    json, status = command(dir, "memory", "--json")
    assert_equal [0, server.pid], [status, JSON.parse(json)["front"]["pid"]]
  end

  # What they hold is theirs, though none of them ends; each stays one request, however often the worker is looked at.
  def test_open_streams_and_not_the_quick_request_beside_them_are_said_to_have_made_a_worker_grow
    dir = app("config.ru" => <<~'RUBY')
      $kept = []
      run ->(env) do
        next [200, {}, ["up"]] unless env["PATH_INFO"] == "/events"
        $kept << ("x" * (4 * 1024 * 1024))
        [200, { "content-type" => "text/event-stream" }, Enumerator.new { |out| out << "data: 1\n\n"; sleep }]
      end
    RUBY
    server = serve(dir, "-w", "1", "-t", "2")
    eventually("a first look") { workers(server).all? { |worker| worker["growth"] } }
    streams = Array.new(12) { server.connect.tap { |socket| socket.write(Wire.request("/events")) } }
    streams.each { |socket| assert_equal 200, Wire.head(socket).status }
    eventually("the streams to be blamed") do
      server.get("/up")
      most = workers(server).first["growth"]["routes"].first
      most && most["route"] == "GET /events" && most["requests"] == 12 && most["bytes"] > 30 * MB
    end
  ensure
    streams&.each(&:close)
  end

  # Serves LEAK, and has looked at each worker before the first request.
  def limited(*arguments, workers: 2, files: {})
    dir = app({ "config.ru" => LEAK }.merge(files))
    serve(dir, "-w", workers.to_s, "-t", "1", *arguments).tap do |server|
      eventually("a first look") { workers(server).size == workers && workers(server).all? { |worker| worker["growth"] } }
    end
  end

  # Asks until the block is true; every answer has to be 200. The pids that answered.
  def ask_until(server, path, within: PATIENCE)
    pids = []
    Net::HTTP.start("127.0.0.1", server.port, read_timeout: PATIENCE) do |http|
      eventually(path, within: within) do
        answer = http.get(path)
        assert_equal "200", answer.code, answer.body
        pids << answer.body.to_i
        yield pids
      end
    end
    pids
  end

  def test_a_leaking_worker_is_replaced_and_no_request_fails
    server = limited("--worker-memory", "60MB")
    first = server.workers
    stop = false
    visitors = Array.new(3) do
      Thread.new do
        codes = []
        codes << server.get("/").code until stop
        codes.tally
      end
    end
    ask_until(server, "/objects?20000") { |pids| pids.any? { |pid| !first.include?(pid) } }
    eventually("one that leaked to go") { (first - server.workers).any? }
    stop = true
    assert_equal ["200"], visitors.flat_map { |visitor| visitor.value.keys }.uniq
    line = server.wait_for(/^\* \S+\.(\d) \(pid (\d+)\) uses ([\d.]+) MB of private memory, more than worker_memory = 60MB; it grew by [\d.]+ MB, most with GET \/objects \([^)]+\); another takes its place/)
    assert_includes first, line[2].to_i
    assert_operator line[3].to_f, :>=, 60 # written with one decimal: 60.04 is over the limit
    assert_equal 2, eventually("two workers again") { (now = server.workers).size == 2 && now.size }
    refute_match(/killed by|worker-ended/, server.output)
  end

  def test_the_successor_is_ready_before_the_old_worker_leaves
    # A boot hook that the test holds: meanwhile the old worker serves on.
    hooks = 'before_worker_boot { |index| File.write("booting", index.to_s) && File.read("boot") if File.exist?("hold") }'
    dir = app("config.ru" => LEAK, "config/puma.rb" => hooks, "paceline.toml" => "workers = 1\nthreads = 1\nmax_requests = 5\n")
    gate, booting = barrier(dir, "boot"), barrier(dir, "booting")
    server = serve(dir)
    old, = server.workers
    write(dir, "hold" => "")
    5.times { server.get("/") }
    assert_equal "0", booting.wait
    server.wait_for(/^\* \S+\.1 \(pid #{old}\) has answered 5 requests \(max_requests\); .*another takes its place/)
    10.times { assert_equal old.to_s, server.get("/").body }
    File.delete(File.join(dir, "hold"))
    gate.open
    eventually("the old worker to go") { !server.workers.include?(old) }
    refute_equal old.to_s, server.get("/").body
    assert_equal 1, server.workers.size
  end

  def test_max_requests_with_jitter_replaces_one_after_the_other
    server = limited("--max-requests", "20", "--max-requests-jitter", "10", workers: 3)
    first = server.workers
    # At no moment is there more than one worker beyond those wanted.
    most = 0
    ask_until(server, "/") { most = [most, server.workers.size].max; (first & server.workers).empty? }
    assert_operator most, :<=, 4
    quotas = server.output.scan(/has answered (\d+) requests \(max_requests\)/).flatten.map(&:to_i)
    assert_operator quotas.size, :>=, 3
    quotas.each { |quota| assert_includes 20..30, quota }
    refute_match(/ended|killed/, server.output)
  end

  def test_beyond_the_hard_limit_a_worker_is_ended_at_once_and_what_may_be_asked_again_is
    files = { "config.ru" => <<~'RUBY' }
      $kept = []
      run ->(env) do
        if env["PATH_INFO"] == "/bloat"
          first = File.write("bloated", "x", mode: File::CREAT | File::EXCL | File::WRONLY) rescue nil
          if first
            $kept << ("x" * 150_000_000)
            sleep # until it is ended
          end
        end
        [200, {}, [Process.pid.to_s]]
      end
    RUBY
    server = limited("--worker-memory-hard", "100MB", workers: 1, files: files)
    old, = server.workers
    answer = server.get("/bloat")
    assert_equal "200", answer.code
    refute_equal old, answer.body.to_i
    server.wait_for(/^\* \S+\.1 \(pid #{old}\) uses [\d.]+ MB of private memory, more than worker_memory_hard = 100MB.*; it is ended at once/)
    incident, = control(server, "/incidents")["incidents"]
    assert_equal ["memory-limit", old], [incident["kind"], control(server, "/incidents/#{incident["id"]}").dig("process", "pid")]
    # What must not be asked twice gets an answer.
    File.delete(File.join(server.dir, "bloated"))
    post = Net::HTTP::Post.new("/bloat", "Content-Length" => "0")
    assert_equal "502", server.request(post).code
    eventually("another worker") { server.get("/").code == "200" }
  end

  def test_of_a_site_over_its_limit_the_largest_worker_goes
    server = limited("--site-memory", "120MB")
    first = server.workers
    pids = ask_until(server, "/leak?#{4 * MB}") { server.output.include?("site_memory") }
    line = server.wait_for(/\.\d \(pid (\d+)\) uses ([\d.]+) MB of private memory, the most of the workers' ([\d.]+) MB, more than site_memory = 120MB/)
    assert_operator line[3].to_f, :>=, 120 # rounded likewise
    largest = pids.tally.select { |pid, _| first.include?(pid) }.max_by(&:last)[0]
    assert_equal largest, line[1].to_i
    eventually("the largest to go") { !server.workers.include?(largest) }
  end

  def test_workers_that_are_over_their_limit_soon_after_their_fork_do_not_come_and_go_for_ever
    # Each worker has 80 MB as soon as it has answered one request, and never more.
    bloat = { "config.ru" => 'run ->(env) { $bloat ||= "x" * 80_000_000; [200, {}, [Process.pid.to_s]] }' }
    server = limited("--worker-memory", "50MB", workers: 1, files: bloat)
    ask_until(server, "/", within: 120) { server.output.match?(/3 workers one after another have reached worker_memory within a minute/) }
    replaced = server.output.scan("another takes its place").size
    assert_equal 3, replaced
    # The next one is left alone for half a minute.
    3.times { server.get("/"); control(server, "/memory") }
    assert_equal 3, server.output.scan("another takes its place").size
  end

  def test_a_limit_that_a_worker_has_at_birth_is_said_once
    large = { "config.ru" => LEAK, "config/puma.rb" => 'before_worker_boot { $born = "x" * 60_000_000 }', "paceline.toml" => "workers = 1\nworker_memory = \"40MB\"\n" }
    server = limited(workers: 1, files: large)
    old, = server.workers
    server.wait_for(/a new worker uses [\d.]+ MB, more than worker_memory = 40MB allows, .*; set worker_memory to more than /)
    50.times { assert_equal old.to_s, server.get("/").body }
    assert_equal 1, server.output.scan("the limit is not applied").size
    refute_includes server.output, "another takes its place"
  end

  # Its at_exit never ends, and it has threads and a child of its own.
  def test_an_application_that_does_not_like_to_be_forked_or_to_end_is_replaced_all_the_same
    hostile = { "config.ru" => <<~'RUBY' }
      Thread.new { loop { sleep 0.01 } }
      $child = IO.popen(["sleep", "60"])
      trap("TERM") { }
      $kept = []
      run ->(env) do
        $beat ||= Thread.new { loop { sleep 0.01 } }
        $kept << ("x" * env["QUERY_STRING"].to_i)
        [200, {}, [Process.pid.to_s]]
      end
    RUBY
    server = limited("--worker-memory", "60MB", workers: 1, files: hostile)
    old, = server.workers
    ask_until(server, "/leak?#{MB}") { |pids| pids.last != old }
    eventually("the old worker to go") { !server.workers.include?(old) }
    assert_equal "200", server.get("/").code
  end

  HELD = 'run ->(env) { at = env["PATH_INFO"][1..]; unless at.empty? then File.write("entered-#{at}", "x"); File.read("gate-#{at}") end; [200, {}, [Process.pid.to_s]] }'.freeze

  def test_the_pool_grows_while_requests_wait_and_shrinks_when_they_do_not
    dir = app("config.ru" => HELD)
    gates, entered = %w[gate entered].map { |name| %w[a b c].map { |at| barrier(dir, "#{name}-#{at}") } }
    server = serve(dir, "-w", "1:3", "-t", "1", "--workers-idle", "2s")
    first = server.workers
    assert_equal 1, first.size
    asking = %w[/a /b /c].map { |path| Thread.new { server.get(path).body.to_i } }
    # All three are inside at once: each in a worker of its own.
    entered.each(&:wait)
    assert_equal 3, server.workers.size
    server.wait_for(/: 3 workers wanted now: 1 requests? waits?$/)
    gates.each(&:open)
    assert_equal 3, asking.map(&:value).uniq.size
    eventually("the first worker alone") { server.workers == first }
    server.wait_for(/: 1 worker wanted now: the others can do without one$/)
    assert_equal first.first.to_s, server.get("/").body
    assert_equal 2, server.output.scan(/wanted now: the others/).size
  end

  def test_ttin_goes_beyond_the_most_and_ttou_below_the_least
    server = serve(app("config.ru" => LEAK), "-w", "2:3", "-t", "1")
    server.signal(:TTIN)
    server.wait_for(/: 3 workers wanted now$/)
    server.signal(:TTIN)
    server.wait_for(/: 4 workers wanted now$/)
    eventually("four workers") { server.workers.size == 4 }
    [3, 2, 1].each do |left|
      server.signal(:TTOU)
      server.wait_for(/: 4 workers .*: #{left} workers? wanted now$/m)
    end
    eventually("one worker") { server.workers.size == 1 }
  end

  # A group of its own with this limit; the server is started within it.
  def small_group(bytes)
    top = %w[/sys/fs/cgroup/memory /sys/fs/cgroup].find { |dir| File.exist?("#{dir}/memory.limit_in_bytes") || File.exist?("#{dir}/cgroup.controllers") }
    skip "no control group can be made here" unless top && Process.uid.zero?
    @group = "#{top}/paceline-test-#{Process.pid}-#{rand(1 << 30)}"
    begin
      Dir.mkdir(@group)
      limit = %w[memory.limit_in_bytes memory.max].map { |name| "#{@group}/#{name}" }.find { |path| File.exist?(path) } or skip "no memory controller"
      File.write(limit, bytes.to_s)
    rescue SystemCallError => e
      skip "no control group can be made here (#{e.message})"
    end
    ["sh", "-c", "echo $$ > #{@group}/cgroup.procs && exec \"$0\" \"$@\""]
  end

  def teardown
    super
    return unless @group
    eventually("the group to be empty") { File.read("#{@group}/cgroup.procs").empty? }
    Dir.rmdir(@group)
  end

  def test_in_a_small_group_the_number_to_set_is_named_and_the_pool_grows_no_further
    within = small_group(200 * MB)
    server = serve(app("config.ru" => LEAK), "-w", "3", "-t", "1", within: within)
    assert_equal 200 * MB, control(server, "/memory")["machine"]["limit"]
    # One of three comes to have 80 MB: three such have no room in 200.
    leaked = server.get("/leak?#{80 * MB}").body
    line = eventually("the line") { server.get("/"); server.output[/^\* \S+: not enough memory\. 3 workers of up to \d+ MB each need \d+ MB, .*$/] }
    assert_match(/this control group has \d+ MB left of 200 MB: set workers = (\d) \(WEB_CONCURRENCY=\1\)\z/, line)
    fits = line[/set workers = (\d)/, 1].to_i
    assert_includes 1..2, fits
    server.signal(:TTIN)
    server.wait_for(/no more workers are started\. 4 workers of up to \d+ MB each .* set workers = #{fits} /)
    assert_equal 3, server.workers.size
    assert_includes server.workers, leaked.to_i
    assert_equal 1, server.output.scan("not enough memory").size
  end

  def test_auto_is_as_many_as_there_are_cores_and_memory_for
    server = serve(app("config.ru" => LEAK), "-t", "1", env: { "WEB_CONCURRENCY" => "auto" })
    server.wait_for(/ is ready: development, #{[Etc.nprocessors, 1].max} x 1 threads/)
    server = serve(app("config.ru" => LEAK), "-t", "1", env: { "WEB_CONCURRENCY" => "auto" }, within: small_group(250 * MB))
    server.wait_for(/ is ready: development, 1 x 1 threads/)
  end

  private

  def workers(server) = control(server, "/memory")["sites"].values.first["generations"][0]["workers"]
end
