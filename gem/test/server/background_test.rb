# frozen_string_literal: true

require "helper"
require "paceline/server/background"

# What the doctor starts beside visitors.
class BackgroundTest < Paceline::Test
  def test_it_has_the_least_share_of_its_own_session
    told, tell = IO.pipe
    pid = fork do
      Paceline::Server::Background.become
      group = File.exist?("/proc/self/autogroup") ? File.read("/proc/self/autogroup")[/nice (\S+)/, 1] : "19"
      tell.write([Process.getpriority(Process::PRIO_PROCESS, 0), Process.getsid == Process.pid, group].join(" "))
    ensure
      exit!(0)
    end
    tell.close
    assert_equal "19 true 19", told.read
  ensure
    Process.wait(pid) if pid
  end

  # An account may change a session's share once in a tenth of a second, and two shadows may begin at once.
  def test_it_asks_again_while_the_kernel_refuses
    refusals = 2
    asked = 0
    write = lambda do |*|
      asked += 1
      raise Errno::EAGAIN if asked <= refusals
    end
    have_least_share = -> { Paceline::Server::Background.stub(:sleep, nil) { File.stub(:write, write) { Paceline::Server::Background.have_least_share } } }
    have_least_share.call
    assert_equal 3, asked
    refusals = 100
    have_least_share.call
    assert_equal 13, asked, "not for ever"
  end
end
