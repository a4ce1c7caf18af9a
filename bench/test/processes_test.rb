# frozen_string_literal: true

# CPU and memory as /proc tells them, and what strace's lines amount to.
require "minitest/autorun"
require_relative "../lib/kernel_counts"
require_relative "../lib/processes"
require_relative "../lib/reaper"
require_relative "../lib/trace"

class ProcessesTest < Minitest::Test
  include Bench

  STAT = "4711 (puma: cluster (1) x) S 42 4711 4711 0 -1 4194560 100 0 0 0 150 50 7 3 20 0 7 0 12345 1 2 3\n"

  def test_the_command_may_hold_parentheses
    stat = Processes.parse_stat(STAT)
    assert_equal [4711, 42, "S", 200, 10], stat.to_a
  end

  def test_cpu_counts_what_was_used_between_two_looks
    before = look(1 => [0, 100, 0], 2 => [1, 50, 0])
    after = look(1 => [0, 130, 0], 2 => [1, 70, 0], 3 => [1, 5, 0])
    assert_in_delta 55, ticks(before, after)
  end

  def test_a_worker_that_ended_counts_once
    before = look(1 => [0, 100, 0], 2 => [1, 50, 0])
    # It used 20 more, ended, and its parent waited for it: 70 are in the parent's reaped time.
    after = look(1 => [0, 100, 70])
    assert_in_delta 20, ticks(before, after)
  end

  def test_memory_is_read_in_bytes
    text = "5581 ffff [rollup]\nRss:  1000 kB\nPss:   400 kB\nPss_Dirty:  99 kB\nPrivate_Clean: 7 kB\nPrivate_Dirty:   300 kB\n"
    assert_equal [300, 400, 1000].map { |kb| kb * 1024 }, Processes.parse_memory(text).to_a
  end

  def test_machine_time_leaves_idle_and_interrupts_out
    assert_in_delta 17 / Processes::TICKS, Processes.machine_busy("cpu  10 1 2 900 50 60 70 4 0 0\n")
  end

  def test_tree_finds_children_and_leaves_the_benchmarks_own_out
    processes = Processes.new
    server = Process.spawn("sleep", "30")
    generator = Process.spawn("sleep", "30")
    processes.own(generator) { assert_equal [server], processes.tree.keys }
    assert_equal [server, generator].sort, processes.tree.keys.sort
  ensure
    [server, generator].compact.each { |pid| Process.kill("KILL", pid) && Process.wait(pid) }
  end

  def test_what_runs_below_the_benchmarks_own_is_its_own_too
    processes = Processes.new
    shell = Process.spawn("sleep 30 & echo; wait", out: (reading, writing = IO.pipe)[1], pgroup: true)
    reading.gets
    below = processes.children(shell)
    assert_equal 1, below.size
    assert_equal [shell, *below].sort, processes.tree.keys.sort
    processes.own(shell) { assert_empty processes.tree }
    processes.own(*below) { assert_equal [shell], processes.tree.keys }
  ensure
    [reading, writing].each(&:close)
    Process.kill("KILL", -shell) && Process.wait(shell)
  end

  # A daemon: its parent ends, and it has a session of its own.
  def test_a_reaper_keeps_orphans_apart_from_other_servers
    first, second = Array.new(2) { Reaper.new("sh", "-c", "setsid sleep 30 & exec sleep 30") }
    trees = [first, second].map { |reaper| Processes.new(reaper.pid) }
    trees.each { |tree| sleep 0.01 until tree.tree.size == 2 }
    Process.kill("KILL", first.child)
    sleep 0.01 until first.ended?
    left, others = trees.map { |tree| tree.tree.keys }
    assert_equal [1, 2], [left.size, others.size]
    assert_empty left & others
    refute_predicate second, :ended?
  ensure
    trees.each { |tree| tree.tree.each_key { |pid| Process.kill("KILL", pid) } }
    [first, second].each(&:wait)
  end

  def test_a_reaper_tells_what_can_not_be_started
    assert_match(/No such file/, assert_raises(Reaper::Failed) { Reaper.new("no-such-program") }.message)
    Process.waitall
  end

  PERF = "# started on Mon\n\n4711,,raw_syscalls:sys_enter,1000,100.00,,\n<not counted>,,context-switches,0,100.00,,\n"

  def test_perf_tells_what_it_counted
    assert_equal({ "raw_syscalls:sys_enter" => 4711 }, KernelCounts.parse(PERF))
  end

  def test_switches_are_those_between_two_looks
    assert_equal 45, KernelCounts.switches_of("Name:\tx\nvoluntary_ctxt_switches:\t42\nnonvoluntary_ctxt_switches:\t3\n")
    # 2 has ended, 3 is new.
    assert_equal 15, KernelCounts.difference({ 1 => 100, 2 => 50 }, { 1 => 110, 3 => 5 })
  end

  def test_counts_are_of_the_processes_asked_for
    reading, writing = IO.pipe
    pid = fork do
      writing.close
      reading.read
      exit!(0)
    end
    reading.close
    value, counts = KernelCounts.new([pid]).during do
      writing.close
      Process.wait(pid)
    end
    assert_equal pid, value
    assert_operator counts.calls, :>=, 1 unless KernelCounts.missing
  end

  # A process that sleeps until something comes, three times.
  def test_without_perf_switches_come_from_proc
    before, KernelCounts.missing = KernelCounts.missing, "perf is not installed"
    (reading, asking), (answers, writing) = Array.new(2) { IO.pipe }
    pid = Process.spawn("cat", in: reading, out: writing)
    asleep = -> { sleep 0.01 until Processes.parse_stat(File.read("/proc/#{pid}/stat")).state == "S" }
    echo = lambda do
      asking.write("x")
      answers.readpartial(1)
      asleep.call
    end
    echo.call
    _, counts = KernelCounts.new([pid]).during { 3.times { echo.call } }
    assert_nil counts.calls
    assert_operator counts.switches, :>=, 2
  ensure
    KernelCounts.missing = before
    asking.close
    Process.wait(pid)
  end

  TRACE = [
    "10 read(5<TCP:[127.0.0.1:3000->127.0.0.1:50000]>, \"\"..., 1024) = 78\n",
    "10 write(7<UNIX-STREAM:[1->2]>, \"\"..., 300) = 300\n",
    "20 read(9<UNIX-STREAM:[2->1]>,  <unfinished ...>\n",
    "20 <... read resumed>\"\"..., 99) = 300\n",
    "20 write(9<UNIX-STREAM:[2->1]>, \"\"..., 99) = 99\n",
    "10 writev(5<TCP:[127.0.0.1:3000->127.0.0.1:50000]>, [], 2) = 120\n",
    "10 sendto(8<TCP:[127.0.0.1:50001->127.0.0.1:4000]>, \"\"..., 9, 0, NULL, 0) = 9\n",
    "20 +++ exited with 0 +++\n"
  ].freeze

  def test_trace_tells_writes_to_the_client_from_others
    counts = Trace.count(TRACE, 3000, [20], 1)
    assert_equal 1.0, counts[:writes]
    assert_equal 6.0, counts[:calls]
    assert_equal({ "read" => 1.0, "write" => 1.0 }, counts[:workers])
    assert_equal 1.0, counts[:others]["writev"]
  end

  private

  # {pid => [parent, ticks, ticks of children waited for]}
  def look(processes)
    processes.to_h { |pid, (parent, own, reaped)| [pid, Processes::Stat.new(pid, parent, "S", own, reaped)] }
  end

  def ticks(before, after)
    Processes.cpu_seconds(before, after) * Processes::TICKS
  end
end
