# `tune = "auto"`: the server tries settings of Ruby by itself, starts the application with what is proven, and gives back what does not hold.
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

  def teardown
    @visiting = false
    @visitor&.join
    super
  end

  def tuning(dir, *arguments, every: "3s", watch: "48s", env: {})
    own = { "XDG_STATE_HOME" => File.join(dir, "state"), "PACELINE_TUNE_IMPATIENT" => "1", "RUBYOPT" => nil }
    serve(dir, "-e", "production", "-w", "1", "-t", "2", "--ready-path", "off", "--tune", "auto", "--tune-every", every, "--tune-watch", watch, "-q",
          *arguments, env: own.merge(env))
  end

  # Somebody reads the page all the time.
  def visit(server)
    @visiting = true
    @visitor = Thread.new do
      Net::HTTP.start("127.0.0.1", server.port) do |http|
        http.get("/") && sleep(0.002) while @visiting
      end
    end
  end

  def leave
    @visiting = false
    @visitor.join
  end

  def state(dir) = JSON.parse(File.read(Dir[File.join(dir, "state/paceline/tune-*.json")].first))["state"]

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
    assert_equal 0o600, File.stat(Dir[File.join(dir, "state/paceline/tune-*.json")].first).mode & 0o777
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
    server = tuning(dir, "--yjit", "off", "--gc", "app")
    server.wait_for(/: tune = "auto" does nothing: yjit and gc are set$/)
  end
end
