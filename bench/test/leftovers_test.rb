# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require "rbconfig"

# That bench/test/run.rb sees what a test leaves behind.
class LeftoversTest < Minitest::Test
  # An orphan with a session of its own, by a process that has ended.
  PROGRAM = 'left = Leftovers.new; system("setsid sleep 30 &"); puts left.clear(0.2).values, left.clear.size'

  def test_a_daemon_is_told_and_killed
    out, status = Open3.capture2(RbConfig.ruby, "-r", File.expand_path("support/leftovers.rb", __dir__), "-e", PROGRAM)
    assert_predicate status, :success?
    assert_match(/\A.*sleep 30.*\n0\n\z/, out)
  end
end
