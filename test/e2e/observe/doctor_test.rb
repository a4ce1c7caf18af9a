# `paceline doctor`: what it finds in an application with a known fault, that it changes nothing, and that what visitors send stays private.
require "json"
require "open3"
require_relative "../support/scenario"
require_relative "../support/asking"
require_relative "../support/beside_doctor"
require_relative "../support/certificates"
require_relative "../support/secure_origin"

class DoctorTest < Minitest::Test
  include Scenario
  include Asking
  include BesideDoctor
  include SecureOrigin

  SECRET = "secret-of-a-visitor".freeze

  APP = <<~'RUBY'
    run lambda { |env|
      case env["PATH_INFO"]
      when "/write" then File.write(File.join(__dir__, "visits.txt"), "1"); [200, {}, ["written"]]
      when "/raise" then raise KeyError, "no such key"
      when "/die" then env.key?("HTTP_X_LIVE") ? [200, {}, ["alive"]] : Process.kill(:KILL, Process.pid)
      when "/missing" then [404, {}, ["nothing here"]]
      when "/policy"
        next [200, {}, ["served"]] unless File.read("/proc/self/cmdline").start_with?("paceline shadow")
        # Of live requests only the class of an error is told. The 41st field is how the thread is scheduled.
        raise Object.const_set("Policy#{File.read("/proc/thread-self/stat").rpartition(") ").last.split[38]}", Class.new(StandardError))
      else [200, { "content-type" => "text/html" }, ["<p>hello #{env["HTTP_COOKIE"]}</p>"]]
      end
    }
  RUBY

  def teardown
    Array(@origins).each(&:close)
    super
  end

  def origin(&script) = (@origins ||= []) << Origin.new(&script) && @origins.last

  def left_out(report) = report["sample"]["left_out"].to_h { |one| [one["request"], one.values_at("why", "what").compact.join(": ")] }

  # Files of the folder with their contents, but the doctor's own result and what Bundler writes.
  def contents(dir)
    files = Dir.glob("**/*", base: dir).select { |path| File.file?(File.join(dir, path)) }
    files.reject { |path| path.start_with?("state/", "tmp/") || path == "Gemfile.lock" }.to_h { |path| [path, File.read(File.join(dir, path))] }
  end

  # Runs the doctor beside a server, and calls the block while it watches. The report.
  def beside(server, *arguments, watch: "2s")
    Open3.popen3(environment(server.dir), BIN, "doctor", "--watch", watch, "--busy", "--json", *arguments, chdir: server.dir) do |_, out, err, ended|
      said = +""
      said << err.readpartial(4096) until said.include?("watching requests")
      yield
      @said = said + err.read
      @printed = out.read
      assert_includes [0, 1], ended.value.exitstatus, @said + @printed
    end
    JSON.parse(@printed)
  end

  # An application that opens TLS connections in each request, which keeping them saves. For requests with X-Live that saves much, or
  # nothing, as it says.
  def with_cold_connections
    authority = Authority.new
    origin = secure(authority, "localhost") do |link|
      while (head = link.head)
        link.answer("price of #{head.line}")
        break if head["connection"] == "close"
      end
    end
    app("ca.pem" => authority.certificate.to_pem, "Gemfile" => <<~GEMFILE, "config.ru" => <<~RUBY)
      gem "rack"
      gem "paceline", path: "#{CHECKOUT}/gem"
    GEMFILE
      # Prices of a supplier.
      require "net/http"
      require "openssl"
      changed = File.read(__FILE__).match?(/^Paceline::HTTP/)
      run lambda { |env|
        if (live = env["HTTP_X_LIVE"])
          sleep 0.1 if live == "much" && !changed
          next [200, {}, ["live"]]
        end

        prices = 6.times.map do |number|
          http = Net::HTTP.new("localhost", #{origin.port})
          http.use_ssl = true
          http.ca_file = File.join(__dir__, "ca.pem")
          http.start { |started| started.get("/\#{number}").body }
        end
        [200, { "content-type" => "text/plain" }, [prices.join("\\n")]]
      }
    RUBY
  end

  # Such a page looks as if it should be cached.
  def test_it_names_the_line_in_which_the_time_passes
    files = {
      "lib/prices.rb" => <<~'RUBY', "prices.yml" => Array.new(3000) { |n| "beer#{n}: #{n}\n" }.join
        require "yaml"

        module Prices
          FILE = File.expand_path("../prices.yml", __dir__)
          KEPT = YAML.load_file(FILE)

          def self.kept = KEPT.size

          def self.parsed
            YAML.load_file(FILE).size
          end
        end
      RUBY
    }
    found = %w[parsed kept].map do |method|
      dir = app(files.merge("config.ru" => "require_relative 'lib/prices'\nrun ->(env) { [200, {}, [Prices.#{method}.to_s]] }"))
      report(dir, "--offline", ".", "--path", "/prices", status: [0, 1])
    end
    advice = found.first["advice"].first
    assert_equal ["slow_line", ["GET /prices"], "lib/prices.rb:10", "what_if"], advice.values_at("kind", "routes", "at", "trial")
    assert_equal ["GET /prices", "lib/prices.rb:10"], found.first["sample"]["spent"].first.values_at("route", "at")
    assert_match(/load_file \(psych\)/, advice["sentence"])
    assert_empty(found.last["advice"].select { |one| one["kind"] == "slow_line" })
  end

  SLOW = "class Prices\n  def self.wait\n    sleep 0.3\n  end\nend\n".freeze
  SLOW_APP = { "lib/prices.rb" => SLOW, "config.ru" => "require_relative 'lib/prices'\nrun ->(_) { Prices.wait; [200, {}, ['slow']] }" }.freeze

  # Before the copies have settled, which takes five seconds.
  def test_a_line_to_look_at_comes_at_once
    dir = app(SLOW_APP)
    at = {}
    Open3.popen2e({ "PACELINE_GEM_DIR" => File.join(CHECKOUT, "gem") }.merge(environment(dir)), BIN, "doctor", "--offline", ".", "--path", "/prices", "--only", "slow_line", chdir: dir) do |_, said, _|
      said.each_line { |line| %w[replaying spends].each { |word| at[word] ||= Process.clock_gettime(Process::CLOCK_MONOTONIC) if line.include?(word) } }
    end
    assert_operator at.fetch("spends") - at.fetch("replaying"), :<, 4
  end

  def test_beside_a_server_a_line_comes_while_requests_are_watched
    server = serve(app(SLOW_APP), "-w", "1")
    beside(server, "--only", "slow_line", "--except", "/left-out", watch: "9s") { %w[/prices /left-out /left-out].each { |path| server.get(path) } }
    assert_match(/watching requests.*GET \/prices spends \d+ of \d+ ms in lib\/prices.rb:3.*replaying 1 requests/m, @said)
    assert_equal 1, @said.scan("GET /prices spends").size
    refute_includes @said, "left-out"
  end

  def test_it_finds_cold_connections_and_writes_the_line_where_it_may
    dir = with_cold_connections
    before = contents(dir)
    found = report(dir, "--offline", ".", "--path", "/prices", "--only", "cold_connections", status: 1)
    advice = found["advice"].first
    assert_equal ["cold_connections", ["GET /prices"], "same", "patch"], advice.values_at("kind", "routes", "bytes", "trial")
    assert_operator advice["gains"].first["low_us"], :>, 0
    assert_equal before, contents(dir)

    patch = doctor(dir, "apply", 1)
    assert_match(/not written, because #{dir} is no git tree/, @said)
    assert_match(/^\+Paceline::HTTP.install!$/, patch)
    assert_equal before["config.ru"], File.read("#{dir}/config.ru")

    commit(dir)
    File.write("#{dir}/ca.pem", "\n", mode: "a")
    assert_equal patch, doctor(dir, "apply", 1)
    assert_match(/the git tree has uncommitted changes: ca.pem; the patch:/, @said)
    git(dir, "checkout", "--quiet", "ca.pem")
    doctor(dir, "apply", 2, status: 2)
    assert_match(/there is no advice 2: the last result has one/, @said)
    assert_match(/no server runs here; the next start uses it/, doctor(dir, "apply", 1))
    assert_match(/^# Prices of a supplier.\n.*^Paceline::HTTP.install!$/m, File.read("#{dir}/config.ru"))
  end

  # Advice 1 of the application, which a server serves from a git tree.
  def advised
    dir = with_cold_connections
    File.write("#{dir}/.gitignore", "Gemfile.lock\ntmp\nstate\n")
    report(dir, "--offline", ".", "--path", "/prices", "--only", "cold_connections", "--rounds", 3, status: 1)
    commit(dir)
    serve(dir, "-w", "1", "-t", "8", "-e", "production", "--ready-path", "off")
  end

  # What `paceline doctor apply 1` says, while visitors ask whom the change saves so much.
  def applied(server, live, generation, *arguments, status: 0)
    applying = Thread.new { doctor(server.dir, "apply", 1, "--for", "3s", *arguments, status: status) }
    server.wait_for(/generation #{generation} has 10 % of the requests/)
    visited(server, live) { applying.join }
    applying.value
  end

  # The block runs beside visitors. The canary gets one of ten requests and needs forty within half a minute: one visitor at a time is too slow for that on a busy machine.
  def visited(server, live)
    over = false
    visitors = 8.times.map { Thread.new { server.get("/prices", "X-Live" => live) until over } }
    yield
  ensure
    over = true
    visitors.each(&:join)
  end

  def roles(server) = control_json(server, "/generations")["sites"].values.first["generations"].map { |one| one["role"] }

  def test_what_visitors_have_nothing_of_is_taken_back_and_what_they_have_of_it_too_is_kept
    server = advised
    said = applied(server, "nothing", 2, status: 1)
    assert_match(/: rolled back: it \w+ \S+ ms \(.*\) of \S+ ms of GET \/prices, in the trial \S+ \(\S+ to \S+\)$/, said)
    assert_match(/: config.ru is as it was before$/, said)
    assert_equal "", git(server.dir, "status", "--porcelain")
    eventually("the canary to go") { roles(server) == ["current"] }

    # The server decides also when nobody waits, and leaves the files alone.
    assert_match(/the server decides and logs the result/, applied(server, "nothing", 3, "--no-wait"))
    visited(server, "nothing") { server.wait_for(/generation 3, is rolled back: it .*; the next start uses the change, as long as it is in config.ru$/) }
    assert_equal " M config.ru\n", git(server.dir, "status", "--porcelain")
    git(server.dir, "checkout", "--quiet", "config.ru")

    said = applied(server, "much", 4)
    assert_match(/restarting with it as a canary: 10 % of the requests for 3s, and until its gain on GET \/prices is known, 30s at most$/, said)
    assert_match(/is ready: .*; it saves \S+ ms \(.*\) of \S+ ms of GET \/prices, in the trial /, said)
    assert_match(/: kept; to undo it, run: git checkout config.ru && paceline rollback$/, said)
    assert_match(/^Paceline::HTTP.install!$/, File.read("#{server.dir}/config.ru"))
  end

  def test_it_writes_nothing_and_says_what_it_left_out
    dir = app("config.ru" => APP)
    before = contents(dir)
    found = report(dir, "--offline", ".", *%w[/ /missing /write /raise /die].flat_map { |path| ["--path", path] })
    assert_equal 1, found["sample"]["requests"], found["sample"]
    assert_equal ["GET /die", "GET /missing", "GET /raise", "GET /write"], left_out(found).keys.sort
    assert_equal "status: 404", left_out(found)["GET /missing"]
    assert_match(/\Awrites: /, left_out(found)["GET /write"])
    assert_equal before, contents(dir)
    result = Dir[File.join(dir, "state/paceline/*.json")].first
    assert_equal 0o600, File.stat(result).mode & 0o777
  end

  def test_connections_that_can_t_be_repeated_are_not_opened
    TCPServer.open("127.0.0.1", 0) do |listener|
      port = listener.addr[1]
      dir = app("config.ru" => <<~RUBY)
        require "socket"
        run ->(env) { [200, {}, [env["PATH_INFO"] == "/call" ? TCPSocket.new("127.0.0.1", #{port}).gets : "hello"]] }
      RUBY
      found = report(dir, "--offline", ".", "--path", "/", "--path", "/call")
      assert_equal({ "GET /call" => "writes: a connection to 127.0.0.1:#{port} without Net::HTTP" }, left_out(found))
      assert_equal :wait_readable, listener.accept_nonblock(exception: false)
    end
  end

  # A heap takes on its shape in the first requests: what a copy does in its first ten says little of a worker.
  def test_what_comes_only_after_a_while_is_found
    dir = app("config.ru" => "calls = 0\nrun ->(env) { 3.times { GC.start } if (calls += 1) > 100; [200, {}, ['hello']] }\n")
    found = report(dir, "--offline", ".", "--only", "gc_settings", status: [0, 1])
    assert_equal ["gc_settings"], found["advice"].map { |advice| advice["kind"] }
  end

  # The server's own code compresses them: by a setting that is off, or if they had another type.
  def test_pages_that_go_out_uncompressed_are_compressed_in_a_trial
    type, setting = %w[text/html application/x-price-list], %w[false true]
    advice = type.zip(setting).map do |content_type, compress|
      dir = app("paceline.toml" => "compress = #{compress}\n", "config.ru" => <<~RUBY)
        rows = Array.new(2000) { |row| "row \#{row} of the price list\n" }.join.freeze
        run ->(_) { [200, { "content-type" => "#{content_type}", "cache-control" => "no-store" }, [rows]] }
      RUBY
      report(dir, "--offline", ".", "--server", "paceline", "--path", "/prices", "--only", "uncompressed_pages")["advice"].first
    end
    lines = advice.map { |one| [one["kind"], one["trial"], one["fix"]["can_apply"], one["fix"]["line"][/\Acompress = true\z|text\/csv/]] }
    assert_equal [["uncompressed_pages", "compression", true, "compress = true"], ["uncompressed_pages", "compression", false, "text/csv"]], lines
    advice.each do |one|
      route = one["compression"].first
      assert_equal ["GET /prices", "gzip"], route.values_at("route", "coding")
      assert_operator route["after"] * 3, :<, route["before"]
      assert_operator route["cpu_us"], :>, 0
    end
    assert_match(/because their type is application\/x-price-list/, advice.last["sentence"])
  end

  # With 15 threads the C library has more arenas than two, each with holes of its own.
  def test_another_allocator_is_tried_on_all_threads_of_a_worker
    faulty = File.join(CHECKOUT, "bench/apps/faults/many_arenas")
    toml = File.read(File.join(faulty, "fault/paceline.toml"))
    dir = app("config.ru" => File.read(File.join(faulty, "config.ru")), "paceline.toml" => toml)
    found = report(dir, "--offline", ".", "--server", "paceline", "--path", "/list", "--only", "allocator", "--rounds", 1, status: [0, 1])
    tried = [*found["advice"], *found["others"]].select { |one| one["trial"] == "memory" }
    arenas = tried.find { |one| one["environment"]["set"] == { "MALLOC_ARENA_MAX" => "2" } }
    assert_equal ["allocator", "malloc_arenas = 2", 15], [arenas["kind"], arenas["fix"]["line"], arenas["load"]["visitors"]]
    refute_equal "failed", arenas["standing"], arenas["why"]
    assert_operator arenas["load"]["trial"]["memory"], :<, arenas["load"]["control"]["memory"]
    assert_operator arenas["load"]["trial"]["cpu_us"], :>, 0
    jemalloc = tried.find { |one| one["environment"]["set"].key?("LD_PRELOAD") }
    refute_equal "failed", jemalloc["standing"], jemalloc["why"] if jemalloc
  end

  def test_where_nothing_can_be_replayed_there_is_no_result
    dir = app("config.ru" => APP, "broken/config.ru" => "raise 'not today'")
    doctor(dir, "--offline", ".", "--path", "/raise", status: 2)
    assert_match(/none of 1 requests can be replayed; GET \/raise fails: KeyError: no such key \(config.ru:\d+\)/, @said)
    doctor(dir, "--offline", ".", "--path", "/missing", status: 2)
    assert_match(/none of 1 requests can be replayed; GET \/missing is answered 404$/, @said)
    doctor(dir, "--offline", "broken", status: 2)
    assert_match(/not today/, @said)
    doctor(dir, status: 2)
    assert_match(/no server answers at tmp\/paceline.sock: .*--offline DIR/, @said)
    doctor(dir, "apply", 1, status: 2)
    assert_match(/there is no result yet: run paceline doctor first/, @said)
  end

  # The person at the terminal has closed it; the report goes elsewhere.
  def test_nobody_need_read_what_it_does
    dir = app("config.ru" => APP)
    IO.pipe do |reader, gone|
      reader.close
      env = { "PACELINE_GEM_DIR" => File.join(CHECKOUT, "gem") }.merge(environment(dir))
      # Nothing can be kept there, which is said, too.
      out, status = Open3.capture2(env.merge("XDG_STATE_HOME" => "/dev/null/state"), BIN, "doctor", "--offline", ".", "--path", "/", chdir: dir, err: gone)
      assert_equal [0, true], [status.exitstatus, out.include?("nothing to change (1 replayed GET")], out
    end
  end

  def test_a_log_names_the_requests
    line = ->(method, target) { %(127.0.0.1 - - [10/Oct/2023:13:55:36 +0200] "#{method} #{target} HTTP/1.1" 200 5 "-" "-"\n) }
    dir = app("config.ru" => APP, "access.log" => [line["GET", "/beers/1"], line["GET", "/beers/2"], line["POST", "/beers"], "nonsense\n"].join)
    found = report(dir, "--offline", ".", "--log", "access.log")
    assert_equal 2, found["sample"]["requests"]
    assert_match(/1 lines of the log are no requests/, @said)
    doctor(dir, "--offline", ".", "--log", "none.log", status: 2)
    assert_match(/none.log: No such file/, @said)
  end

  def test_beside_a_running_server_what_visitors_send_stays_private
    server = serve(app("config.ru" => APP), "-w", "1")
    found = beside(server) do
      5.times { |number| server.get("/beers/#{number}", "Cookie" => "session=#{SECRET}") }
      server.get("/die", "X-Live" => "1")
      server.get("/write")
      server.request(Net::HTTP::Post.new("/beers"))
    end
    assert_equal [true, 6], found["sample"].values_at("live", "requests"), found["sample"]
    assert_equal ["GET /write"], left_out(found).keys
    assert_equal server.workers, server.workers.select { |pid| Process.kill(0, pid) }
    everything = [@printed, @said, server.output, *Dir[File.join(server.dir, "{state,tmp}/**/*")].select { |path| File.file?(path) }.map { |path| File.read(path) }]
    everything.each { |text| refute_includes text, SECRET }
    eventually("the shadows to be gone") { shadows(server).empty? }
    assert_equal "<p>hello </p>", server.get("/").body
  end

  # 5: SCHED_IDLE of sched(7).
  def test_a_shadow_gives_way_to_all_others_at_once
    server = serve(app("config.ru" => APP), "-w", "1")
    found = beside(server) do
      server.get("/policy")
      server.get("/")
    end
    assert_match(/: Policy5\b/, left_out(found)["GET /policy"])
    assert_equal 1, found["sample"]["requests"]
  end

  def test_a_sample_is_for_the_control_socket_and_for_one_doctor_only
    server = serve(app("config.ru" => APP), "-w", "1", "--control-url", "tcp://127.0.0.1:0", env: { "PACELINE_CONTROL_TOKEN" => "correct-horse-battery" })
    web = Integer(server.output[/The control listener is http:\/\/127.0.0.1:(\d+)/, 1])
    asked = Net::HTTP::Post.new("/doctor/samples", "Authorization" => "Bearer correct-horse-battery")
    answer = Net::HTTP.start("127.0.0.1", web) { |http| http.request(asked) }
    assert_equal ["403", "this is answered on the control socket only"], [answer.code, JSON.parse(answer.body)["error"]]

    assert_equal [200, { "requests" => 0, "routes" => 0 }], ask_doctor(server, "watch", "id" => "one")
    server.get("/a", "Cookie" => "a=b")
    assert_equal [409, "another paceline doctor watches #{File.basename(server.dir)}"], refused(ask_doctor(server, "watch", "id" => "two"))
    assert_equal 404, ask_doctor(server, "samples", "id" => "two").first
    assert_equal ["GET /a"], ask_doctor(server, "samples", "id" => "one", "so_far" => true).last["routes"].map { |route| route["route"] }
    status, samples = ask_doctor(server, "samples", "id" => "one")
    assert_equal [200, ["GET /a"]], [status, samples["routes"].map { |route| route["route"] }]
    sample = samples["routes"].first["samples"].first
    assert_equal ["/a", true], [sample["path"], sample["headers"].include?(%w[cookie a=b])]
    assert_equal 404, ask_doctor(server, "samples", "id" => "one").first
    ["relative", "/#{"x" * 200}", nil].each { |path| assert_equal 400, ask_doctor(server, "shadow", "socket" => path).first }
  end

  # POST on the control socket: [status, JSON].
  def ask_doctor(server, what, body)
    answer = UNIXSocket.open(File.join(server.dir, "tmp/paceline.sock")) do |io|
      text = JSON.generate(body)
      io.write("POST /doctor/#{what} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: #{text.bytesize}\r\n\r\n#{text}")
      Timeout.timeout(PATIENCE) { io.read }
    end
    [Integer(answer[/\AHTTP\/1.1 (\d+)/, 1]), JSON.parse(answer.split("\r\n\r\n", 2).last)]
  end

  def refused((status, answer)) = [status, answer["error"]]

  def test_an_application_that_each_worker_loads_has_no_shadow
    server = serve(app("config.ru" => APP), "-w", "1", "--preload=false")
    doctor(server.dir, "--path", "/", "--busy", status: 2)
    assert_match(/with preload = false each worker loads its own/, @said)
    assert_equal "200", server.get("/").code
  end

  def test_one_doctor_at_a_time
    dir = app("config.ru" => APP)
    File.open(dir) do |folder|
      folder.flock(File::LOCK_EX)
      doctor(dir, "--offline", ".", status: 2)
    end
    assert_match(/another paceline doctor looks at #{dir}/, @said)
  end
end
