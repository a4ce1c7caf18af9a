# frozen_string_literal: true

require "minitest/autorun"
require_relative "../balance/contest"

# `bin/bench balance`: that no host outlives its scene. Nothing is measured.
class BalanceBenchTest < Minitest::Test
  include Bench

  def test_hosts_end_with_their_scene
    skip "there is no nginx" unless File.executable?("/usr/sbin/nginx")
    processes = Processes.new
    Dir.mktmpdir do |work|
      workers = []
      BalanceContest.new({}, processes).send(:with_hosts, :cost, work) do |_, pids|
        sleep 0.01 until (workers = pids.flat_map { |pid| processes.children(pid) }).size == pids.size
      end
      assert_equal 3, workers.size
      assert_empty(workers.select { |pid| File.exist?("/proc/#{pid}") })
    end
  end
end
