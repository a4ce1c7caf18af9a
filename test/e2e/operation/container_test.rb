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

  private

  def zombie?(pid)
    File.read("/proc/#{pid}/stat").rpartition(") ").last.start_with?("Z")
  rescue Errno::ENOENT, Errno::ESRCH
    false
  end
end
