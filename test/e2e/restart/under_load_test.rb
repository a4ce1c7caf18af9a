# Twenty-five visitors, half of them on kept connections, while the application is restarted by each way there is, and while new
# generations fail: not one request fails. (`bin/bench restart` does it for longer, and beside other servers.)
require_relative "../support/control"
require_relative "../support/scenario"
require_relative "../support/traffic"

class RestartUnderLoadTest < Minitest::Test
  include Scenario
  include Control

  RESTARTS = 3
  # Answers with what was asked and its version. What `mode` says, it does: raise, wait for somebody at `barrier`, answer 500.
  APP = <<~RUBY.freeze
    version, mode = %w[version mode].map { |name| File.read(name) }
    raise "this version does not load" if mode == "raise"
    if mode == "slow"
      File.write("entered", "x")
      File.read("barrier")
    end
    run ->(env) do
      sleep 0.003
      next [500, {}, ["not well"]] if mode == "broken"
      body = env["rack.input"].read
      [200, {}, [env["REQUEST_METHOD"], env["PATH_INFO"].sub("/", " "), " ", version, " ", body.bytesize.to_s]]
    end
  RUBY

  def deploy(dir, version, mode = "ok") = write(dir, "version" => version.to_s, "mode" => mode)

  def site
    dir = app("config.ru" => APP, "tmp/restart.txt" => "")
    deploy(dir, 0)
    [dir, serve(dir, "-w", "2", "-t", "3", "-e", "production", "-q")]
  end

  # The versions that answered, in the order of the first answers; no request failed.
  def under_load(server)
    traffic = Traffic.new(server.port)
    yield
    outcomes = traffic.stop
    assert_empty outcomes.select(&:failure).map(&:to_s)
    assert_operator outcomes.size, :>, 100
    outcomes.map { |outcome| outcome.body.split[2].to_i }.uniq
  end

  def answers(server, version) = eventually("version #{version}") { server.get("/x").body.split[2] == version.to_s }

  WAYS = {
    "restart_txt" => ->(_, dir) { FileUtils.touch(File.join(dir, "tmp/restart.txt")) },
    "usr1" => ->(server, _) { server.signal(:USR1) }
  }.freeze

  WAYS.each do |name, restart|
    define_method("test_#{name}_under_load_fails_no_request") do
      dir, server = site
      versions = under_load(server) do
        1.upto(RESTARTS) do |version|
          deploy(dir, version)
          restart.call(server, dir)
          answers(server, version)
        end
      end
      assert_equal [*0..RESTARTS], versions
    end
  end

  def test_restart_wait_under_load_fails_no_request_and_says_when_it_is_done
    dir, server = site
    versions = under_load(server) do
      1.upto(RESTARTS) do |version|
        deploy(dir, version)
        out, status = command(dir, "restart", "--wait")
        assert_equal 0, status, out
        assert_equal version.to_s, server.get("/x").body.split[2]
      end
    end
    assert_equal [*0..RESTARTS], versions
  end

  def test_upgrades_under_load_fail_no_request
    dir, server = site
    versions = under_load(server) do
      1.upto(RESTARTS) do |version|
        deploy(dir, version)
        out, status = command(dir, "upgrade", "--wait")
        assert_equal 0, status, out
        answers(server, version)
        # One at a time.
        eventually("the program before to end") { server.output.scan(/^\* Replaced: all requests are finished$/).size == version }
      end
    end
    assert_equal [*0..RESTARTS], versions
  end

  # As Capistrano deploys: a release of its own, `current` switched, restart.txt touched there.
  def test_switching_current_under_load_fails_no_request
    dir = app("releases/0/config.ru" => APP.gsub("File.read(name)", "File.read(File.join(__dir__, name))"))
    release = lambda do |version|
      FileUtils.cp_r(File.join(dir, "releases/0"), File.join(dir, "releases", version.to_s)) unless version.zero?
      folder = File.join(dir, "releases", version.to_s)
      deploy(folder, version)
      File.symlink(folder, File.join(dir, "new"))
      File.rename(File.join(dir, "new"), File.join(dir, "current"))
      FileUtils.mkdir_p(File.join(dir, "current/tmp"))
      FileUtils.touch(File.join(dir, "current/tmp/restart.txt"))
    end
    release[0]
    server = serve(dir, "--dir", File.join(dir, "current"), "-w", "2", "-t", "3", "-e", "production", "-q")
    versions = under_load(server) do
      1.upto(RESTARTS) do |version|
        release[version]
        answers(server, version)
      end
    end
    assert_equal [*0..RESTARTS], versions
  end

  def test_a_generation_that_answers_500_when_asked_whether_it_is_ready_fails_no_request
    dir, server = site
    versions = under_load(server) do
      1.upto(RESTARTS) do |version|
        deploy(dir, version, "broken")
        out, status = command(dir, "restart", "--wait")
        assert_equal 1, status, out
        assert_match(/500/, out)
      end
    end
    assert_equal [0], versions
  end

  def test_a_generation_that_does_not_load_fails_no_request
    dir, server = site
    versions = under_load(server) do
      1.upto(RESTARTS) do |version|
        from = server.output.size
        deploy(dir, version, "raise")
        server.signal(:USR1)
        server.wait_for(/the old one goes on serving$/, from: from)
      end
    end
    assert_equal [0], versions
  end

  def test_a_generation_that_takes_long_to_load_is_not_waited_for
    dir, server = site
    gate, entered = barrier(dir), barrier(dir, "entered")
    versions = under_load(server) do
      deploy(dir, 1, "slow")
      server.signal(:USR1)
      entered.wait
      # Answered while the next one loads, which it does until it is let go.
      20.times { assert_equal "0", server.get("/x").body.split[2] }
      gate.open
      answers(server, 1)
    end
    assert_equal [0, 1], versions
  end
end
