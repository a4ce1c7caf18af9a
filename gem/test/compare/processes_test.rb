# frozen_string_literal: true

require "helper"
require "paceline/compare/processes"

# What is counted of processes.
class CompareProcessesTest < Minitest::Test
  Processes = Paceline::Compare::Processes

  def test_all_below_a_process
    parents = { 2 => 1, 3 => 2, 4 => 2, 5 => 3, 6 => 1 }
    assert_equal [2, 3, 4, 5], Processes.tree(2, parents)
    assert_equal [6], Processes.tree(6, parents)
  end

  def test_a_child_that_works
    reading, writing = IO.pipe
    child = fork do
      writing.close
      reading.read(1)
      100_000.times { |number| number.to_s }
      sleep
    end
    reading.close
    assert_includes Processes.tree(Process.pid), child
    before = Processes.read([child])
    writing.write(".")
    sleep 0.01 until Processes.difference(before, Processes.read([child])).cpu > 0.005
    # It may have read the byte without waiting; it has switched once it sleeps.
    sleep 0.01 until Paceline::Server::ProcessStat.of(child).state == "S"
    use = Processes.difference(before, Processes.read([child]))
    assert_operator use.switches, :>=, 1, "it sleeps"
    refute use.replaced
  ensure
    Process.kill(:KILL, child)
    Process.wait(child)
  end

  def test_processes_that_end_and_begin
    reading = ->(cpu, switches) { Processes::Reading.new(cpu, switches) }
    use = Processes.difference(reading[{ 1 => 2.0, 2 => 9.0 }, { 1 => 5, 2 => 50 }], reading[{ 1 => 3.0, 3 => 0.5 }, { 1 => 7, 3 => 4 }])
    assert_equal [1.5, 6, true], use.to_a
    gone = fork { exit!(0) }
    Process.wait(gone)
    assert_equal [{}, {}], Processes.read([gone]).to_a
  end
end
