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
end
