# Twenty-five visitors, half of them on kept connections, while the application is restarted by each way there is, and while new
# generations fail: not one request fails. (`bin/bench restart` does it for longer, and beside other servers.)
require_relative "support/scenario"
require_relative "support/traffic"

class RestartUnderLoadTest < Minitest::Test
  include Scenario

  RESTARTS = 3
  # Answers with what was asked and its version. What `mode` says, it does: raise, wait for somebody at `barrier`.
  APP = <<~RUBY.freeze
    version, mode = %w[version mode].map { |name| File.read(name) }
    raise "this version does not load" if mode == "raise"
    if mode == "slow"
      File.write("entered", "x")
      File.read("barrier")
    end
    run ->(env) do
      sleep 0.003
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
    "usr1" => ->(server, _) { server.signal(:USR1) },
    "usr2" => ->(server, _) { server.signal(:USR2) }
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

  def test_a_generation_that_does_not_load_fails_no_request
    dir, server = site
    versions = under_load(server) do
      1.upto(RESTARTS) do |version|
        from = server.output.bytesize
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
