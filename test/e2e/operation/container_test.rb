# The server as process 1, as in a container without an init.
require_relative "../support/scenario"

class ContainerTest < Minitest::Test
  include Scenario

  APP = <<~'RUBY'
    run lambda { |env|
      # A child that is nobody's: its own parent ends before it.
      fork { fork { exit! }; exit! }.then { |pid| Process.wait(pid) } if env["PATH_INFO"] == "/orphan"
      [200, {}, [Process.ppid.to_s]]
    }
  RUBY

  def setup
    unshare = system("unshare", *NAMESPACE, "true", %i[out err] => File::NULL)
    skip "this account may not make a process namespace" unless unshare
  end

  NAMESPACE = %w[--pid --fork --mount-proc --kill-child].freeze

  def test_process_1_reaps_orphans_and_ends_with_term
    server = serve(app("config.ru" => APP), within: ["unshare", *NAMESPACE])
    10.times { assert_equal "200", server.get("/orphan").code }
    first = server.descendants.first

    assert_equal 1, File.read("/proc/#{first}/status")[/^NSpid:.*\s(\d+)$/, 1].to_i
    eventually("the orphans to be reaped") { server.descendants.none? { |pid| zombie?(pid) } }
    Process.kill(:TERM, first)
    assert_equal 0, server.wait.exitstatus
    assert_match(/\* Stopped$/, server.output)
  end

  # Signals that have no handler do nothing to process 1. Each of these has one, and ends it with the status that docs/signals.md says.
  def test_exit_status_of_process_1
    %i[TERM INT QUIT].each do |name|
      server = serve(app("config.ru" => APP), within: ["unshare", *NAMESPACE])
      Process.kill(name, server.descendants.first)
      assert_equal 0, server.wait.exitstatus, name
    end
  end

  def test_exit_status_of_what_does_not_start
    taken = TCPServer.new("127.0.0.1", 0)
    {
      ["--thread", "2"] => [2, /unexpected argument '--thread'/],
      ["-w", "none"] => [2, /none/],
      ["-b", "tcp://127.0.0.1:#{taken.addr[1]}"] => [1, /#{taken.addr[1]}/]
    }.each do |arguments, (status, sentence)|
      server = serve(app("config.ru" => APP), *arguments, within: ["unshare", *NAMESPACE], port: false, ready: false)
      assert_equal status, server.wait.exitstatus, arguments.inspect
      assert_match sentence, server.output
    end
  ensure
    taken&.close
  end

  def test_process_1_after_an_upgrade_reaps_and_ends_with_term
    server = serve(app("config.ru" => APP), within: ["unshare", *NAMESPACE])
    first = server.descendants.first
    Process.kill(:USR2, first)
    server.wait_for(/ is ready: .*\n(?:.*\n)*.* is ready: /)
    eventually("the new front to serve alone") { server.get("/").then { |answer| answer.code == "200" } && File.read("/proc/#{first}/cmdline").include?("--stand-in-for") }
    10.times { assert_equal "200", server.get("/orphan").code }
    eventually("the orphans to be reaped") { server.descendants.none? { |pid| zombie?(pid) } }
    Process.kill(:TERM, first)
    assert_equal 0, server.wait.exitstatus
  end

  private

  def zombie?(pid)
    File.read("/proc/#{pid}/stat").rpartition(") ").last.start_with?("Z")
  rescue Errno::ENOENT, Errno::ESRCH
    false
  end
end
