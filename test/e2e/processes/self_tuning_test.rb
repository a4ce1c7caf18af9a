# `tune = "auto"`: the server tries settings by itself, starts the application with what is proven, and gives back what does not hold.
require "fileutils"
require "json"
require_relative "../support/scenario"
require_relative "../support/control"

class SelfTuningTest < Minitest::Test
  include Scenario
  include Control

  # With YJIT it computes a sixth, or more than ever if there is a file `worse`.
  APP = <<~'RUBY'
    tuned = ENV["RUBYOPT"].to_s.include?("--yjit")
    run lambda { |env|
      next [200, {}, [tuned ? "tuned" : "plain"]] if env["PATH_INFO"] == "/how"

      rounds = !tuned ? 600_000 : File.exist?("worse") ? 2_400_000 : 60_000
      number = 0
      number += 1 while number < rounds
      [200, { "cache-control" => "no-store" }, ["page"]]
    }
  RUBY

  # It waits for something else, or much longer if there is a file `worse`.
  WAITING = <<~'RUBY'
    run lambda { |env|
      next [200, {}, [ENV["LD_PRELOAD"].to_s]] if env["PATH_INFO"] == "/how"

      sleep File.exist?("worse") ? 0.6 : 0.05
      [200, { "cache-control" => "no-store" }, ["page"]]
    }
  RUBY
  VISITORS = 12

  def teardown
    leave
    super
  end

  def tuning(dir, *arguments, numbers: %w[-w 1 -t 2], every: "3s", watch: "48s", env: {})
    own = { "XDG_STATE_HOME" => File.join(dir, "state"), "PACELINE_TUNE_IMPATIENT" => "1", "RUBYOPT" => nil }
    serve(dir, "-e", "production", *numbers, "--ready-path", "off", "--tune", "auto", "--tune-every", every, "--tune-watch", watch, "-q",
          *arguments, env: own.merge(env))
  end

  # One that nobody has told a number of threads.
  def threading(dir, *arguments)
    unset = %w[RAILS_MAX_THREADS PUMA_MAX_THREADS MAX_THREADS LD_PRELOAD MALLOC_ARENA_MAX GLIBC_TUNABLES].to_h { |name| [name, nil] }
    tuning(dir, *arguments, numbers: %w[-w 1], every: "5s", env: unset)
  end

  # So many read the page all the time, each by an address of its own: the same one would be one request for the application.
  def visit(server, visitors: 1)
    @visiting = true
    @visitors = Array.new(visitors) do |number|
      Thread.new do
        Net::HTTP.start("127.0.0.1", server.port) do |http|
          http.get("/?#{number}") && sleep(0.002) while @visiting
        end
      end
    end
  end

  def leave
    @visiting = false
    @visitors&.each(&:join)
  end

  def state_file(dir) = Dir[File.join(dir, "state/paceline/tune-*.json")].first

  def state(dir) = JSON.parse(File.read(state_file(dir)))["state"]

  # Copies of the application: children of the preloader that are no workers.
  def shadows(server)
    children = ->(pid) { File.read("/proc/#{pid}/task/#{pid}/children").split.map { |child| Integer(child) } }
    server.preloaders.flat_map { |preloader| children[preloader] } - server.workers
  end

  def threads(server) = control(server, "/status")["sites"].values.first["threads"]

  def said_of(server) = control(server, "/status")["sites"].values.first["tune"]

  def how(server) = server.get("/how").body

  def test_what_is_proven_stays_over_the_server_s_end_and_is_given_back_when_requests_become_slower
    dir = app("config.ru" => APP, "Gemfile.lock" => "")
    server = tuning(dir)
    visit(server)
    server.wait_for(/: YJIT is worth it \(RUBYOPT=--yjit\): trying it on visitors' requests$/, within: 150)
    server.wait_for(/: YJIT is tuned \(RUBYOPT=--yjit\): .*it saves \S+ ms \(.*\) of \S+ ms of GET \/, in the trial .*; compared with before for 48s$/, within: 150)
    leave
    assert_equal "tuned", how(server)
    assert_match(/\AYJIT \(RUBYOPT=--yjit\), compared with before: /, said_of(server))
    assert_match(/^  tune: YJIT \(RUBYOPT=--yjit\)/, command(dir, "status").first)
    assert_equal 0o600, File.stat(state_file(dir)).mode & 0o777
    server.stop

    server = tuning(dir)
    assert_equal "tuned", how(server)
    write(dir, "worse" => "")
    visit(server)
    server.wait_for(/: YJIT is given back: slower in 2 hours in a row: median \S+ ms, p95 \S+ ms on the same routes, before /, within: 150)
    eventually("the application without it") { how(server) == "plain" }
    assert_equal [nil, ["yjit"]], [state(dir)["kept"], state(dir)["rejected"].map { |one| one["kind"] }]
    assert_match(/\Anothing; YJIT was given back: slower/, said_of(server))
  end

  def test_what_was_tuned_for_another_bundle_is_not_used_and_a_user_s_setting_wins
    dir = app("config.ru" => APP, "Gemfile.lock" => "")
    server = tuning(dir)
    visit(server)
    server.wait_for(/: YJIT is tuned /, within: 150)
    leave
    server.stop
    write(dir, "Gemfile.lock" => "\n")
    server = tuning(dir, every: "1d")
    assert_equal "plain", how(server)
    server.wait_for(/: YJIT is given back: Gemfile.lock has changed since it was tried$/)
    server.stop
    server = tuning(dir, "--tune-kinds", "yjit", "--yjit", "off")
    server.wait_for(/: tune = "auto" does nothing: what it may try \(tune_kinds\) is set$/)
  end

  # Visitors who stay would take the processors from the copies: they leave when a copy is there, and come back for the canary.
  def test_threads_that_visitors_wait_for_are_tuned_and_given_back_in_full
    dir = app("config.ru" => WAITING, "Gemfile.lock" => "")
    server = threading(dir, "--tune-kinds", "threads")
    assert_equal 3, threads(server)
    visit(server, visitors: VISITORS)
    eventually("a copy", within: 60) { shadows(server).any? }
    leave
    server.wait_for(/: threads 3 -> (\d+) is worth it \(threads = \1\): trying it on visitors' requests$/, within: 150)
    visit(server, visitors: VISITORS)
    server.wait_for(/: threads 3 -> (\d+) is tuned \(threads = \1\): .*; compared with before for 48s$/, within: 60)
    leave
    more = threads(server)
    assert_includes 4..16, more
    server.stop

    server = threading(dir, "--tune-kinds", "threads")
    assert_equal more, threads(server), "it survives the server"
    assert_equal 0, command(dir, "restart", "--wait").last
    assert_equal more, threads(server), "and restarts"
    write(dir, "worse" => "")
    visit(server, visitors: VISITORS)
    server.wait_for(/: threads 3 -> #{more} is given back: slower in 2 hours in a row: median \S+ ms/, within: 60)
    eventually("the application with its own threads") { threads(server) == 3 }
    assert_equal [nil, ["too_few_threads"]], [state(dir)["kept"], state(dir)["rejected"].map { |one| one["kind"] }]
  end

  # As if a trial had proved it in an earlier run of the server.
  def keep(dir, kind, short, settings, environment: {})
    change = { kind: kind, short: short, environment: { set: environment, unset: [], ruby_options: [] }, settings: settings, gains: [] }
    fingerprint = { ruby: "ruby #{RUBY_VERSION}", lock: digest(""), code: "" }
    kept = { change: change, fingerprint: fingerprint, since: Time.now.to_f, live: "", before: {}, compared: 0, slower: 0, is_proven: false }
    file = File.join(dir, "state/paceline/tune-#{File.basename(dir)}-#{digest(dir)}.json")
    FileUtils.mkdir_p(File.dirname(file))
    File.write(file, JSON.generate(format: 1, state: { root: dir, kept: kept, rejected: [], nothing_for: nil }), perm: 0o600)
  end

  # As fingerprint.rs.
  def digest(text) = format("%016x", text.bytes.reduce(0xcbf29ce484222325) { |hash, byte| ((hash ^ byte) * 0x100000001b3) & 0xffffffffffffffff })

  def test_settings_are_used_from_the_start_unless_a_user_has_set_them
    dir = app("config.ru" => WAITING, "Gemfile.lock" => "")
    keep(dir, "allocator", "jemalloc", { jemalloc: true })
    installed = Dir["/usr/lib/{x86_64-linux-gnu/,aarch64-linux-gnu/,}libjemalloc.so.2", "/usr/lib64/libjemalloc.so.2", "/usr/local/lib/libjemalloc.so.2"].any?
    server = threading(dir, "--tune-kinds", "allocator")
    assert_equal [3, installed], [threads(server), how(server).end_with?("/libjemalloc.so.2")]
    server.stop
    server = threading(dir, "--tune-kinds", "allocator", "--tune-kinds", "yjit", "--allocator", "system")
    assert_equal "", how(server)
    server.wait_for(/: jemalloc is given back: it is set in the configuration or the environment now$/)
    server.stop

    keep(dir, "too_few_threads", "threads 3 -> 9", { threads: [1, 9] })
    server = threading(dir, "--tune-kinds", "threads", "--tune-kinds", "yjit", "-t", "4")
    assert_equal 4, threads(server), "a flag wins from the first moment"
    server.wait_for(/: threads 3 -> 9 is given back: it is set in the configuration or the environment now$/)
    assert_nil state(dir)["kept"]
    server.stop

    keep(dir, "too_few_threads", "threads 3 -> 9", { threads: [1, 9] })
    server = threading(dir, "--tune-kinds", "threads")
    assert_equal 9, threads(server)
    assert_equal [{ "outcome" => "serves" }, 4], [applied(server, "threads = 4"), threads(server)], "what somebody applies wins"
    server.wait_for(/: threads 3 -> 9 is given back: it is set in the configuration or the environment now$/)
  end

  def test_a_doctor_tries_other_settings_beside_what_is_tuned
    dir = app("config.ru" => "File.write('starts', ENV.values_at('RUBYOPT', 'RUBY_GC_HEAP_FREE_SLOTS').inspect + \"\\n\", mode: 'a')\n#{APP}",
              "Gemfile.lock" => "")
    keep(dir, "gc_settings", "GC", {}, environment: { RUBY_GC_HEAP_FREE_SLOTS: "123456" })
    server = tuning(dir, every: "1d")
    eventually("what is tuned") { said_of(server).to_s.include?("RUBY_GC_HEAP_FREE_SLOTS=123456") }
    own = { "PACELINE_GEM_DIR" => File.join(Scenario::CHECKOUT, "gem"), "RUBYOPT" => nil }
    output, = command(dir, "doctor", "--path", "/", "--only", "yjit", "--busy", "--rounds", "2", env: own)
    assert_match(/YJIT/, output)
    of_server, as_it_is, changed = File.readlines(File.join(dir, "starts"))
    assert_equal [of_server, true], [as_it_is, of_server.include?('"123456"')]
    assert_match(/--yjit", "123456"/, changed)
  end

  # As `paceline doctor apply` does it.
  def applied(server, line)
    visit(server)
    site = File.basename(server.dir)
    attempt = control(server, "/restart", { site: site, canary: 50, for: 1, requests: 5, settings: line })["sites"].values.first["attempt"]
    eventually("the canary's end") { control(server, "/restarts/#{attempt}-#{site}")["outcome"] }
    control(server, "/restarts/#{attempt}-#{site}").slice("outcome").tap { leave }
  end
end
