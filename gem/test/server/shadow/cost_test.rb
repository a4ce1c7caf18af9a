# frozen_string_literal: true

require "helper"
require "paceline/server/shadow/cost"

# What a replay costs is the request's, and not the machine's.
class ShadowCostTest < Paceline::Test
  # One processor for this process and three that never rest; prints how long the work took, and how long by the processor's time.
  ON_A_BUSY_PROCESSOR = <<~'RUBY'
    require "paceline/server/shadow/cost"
    others = Array.new(3) { fork { loop { nil } } }
    spent = -> { Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) }
    cost = Paceline::Server::Shadow::Cost.of { (spent.call + 0.2).then { |enough| nil until spent.call > enough } }
    others.each { |pid| Process.kill("KILL", pid) }
    puts cost.wall, cost.cpu
  RUBY

  def test_waiting_for_a_processor_is_left_out
    skip "no taskset, or a kernel that does not say" unless File.exist?("/proc/thread-self/schedstat") && system("taskset", "-V", out: File::NULL, err: File::NULL)
    lib = File.expand_path("../../../lib", __dir__)
    processor = File.read("/proc/self/status")[/^Cpus_allowed_list:\s*(\d+)/, 1]
    out, error, status = Open3.capture3("taskset", "-c", processor, RbConfig.ruby, "-I#{lib}", "-e", ON_A_BUSY_PROCESSOR)
    assert status.success?, error
    wall, cpu = out.split.map(&:to_f)
    assert_operator wall, :<, 2 * cpu
    assert_operator wall, :>=, cpu
  end

  # It is done hundreds of times in a request.
  def test_own_work_of_a_trial_is_left_out
    spent = -> { Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :float_microsecond) }
    work = ->(*) { (spent.call + 50).then { |enough| Array.new(10) { +"text" } until spent.call > enough } }
    elapsed = -Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_microsecond)
    own = Paceline::Server::Shadow::Cost.of { 200.times { Paceline::Server::Shadow::Cost.aside(&work) } }
    elapsed += Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_microsecond)
    same = Paceline::Server::Shadow::Cost.of { 200.times(&work) }
    # Collections are counted apart: when they come is chance.
    assert_operator (own.cpu - own.gc) * 3, :<, same.cpu - same.gc
    assert_operator own.allocated * 3, :<, same.allocated
    assert_operator own.wall, :<, elapsed - (200 * 45)
  end

  # It had no processor meanwhile, which is left out already.
  def test_own_work_that_is_interrupted_counts_once
    cost = Paceline::Server::Shadow::Cost.of { Paceline::Server::Shadow::Cost.aside { IO.select(nil, nil, nil, 0.02) } }
    assert_operator cost.wall, :>, 10_000
  end

  def test_waiting_for_others_is_not
    cost = Paceline::Server::Shadow::Cost.of { IO.select(nil, nil, nil, 0.02) }
    assert_operator cost.wall, :>, 10_000
    assert_operator cost.cpu, :<, 10_000
  end
end
