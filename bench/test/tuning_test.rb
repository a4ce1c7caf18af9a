# frozen_string_literal: true

# What `bin/bench tuning` makes of its rounds, and of the results of several Rubies.
require "minitest/autorun"
require_relative "../tuning"

class TuningTest < Minitest::Test
  include Bench

  SHAPE = Shape.new(16, true)
  Ended = Struct.new(:cells, :started, :absent)

  def test_a_way_is_compared_with_the_first_one_with_as_many_threads
    rows = found.groups.to_h { |group| [group.shape, group.rows.to_h { |row| [row.server, row] }] }
    assert_equal ["1 thread, 16 connections, keep-alive", "5 threads, 16 connections, keep-alive"], rows.keys
    assert_in_delta 1.5, rows.values[0]["--gc auto"].cpu_ratio
    assert_in_delta 2.0, rows.values[1]["--gc auto"].cpu_ratio
    assert_equal [1.0, 1.0], rows.values[1]["(defaults)"].cpu_spread
  end

  def test_the_first_way_is_compared_with_itself_with_fewer_threads
    assert_equal [["1 thread", 1.0], ["5 threads", 1.1]], found.threads.first.rows.map { |row| [row.server, row.cpu_ratio.round(2)] }
    assert_empty TuningFound.new({}, [""], [5]).threads
  end

  def test_a_ratio_is_the_median_of_those_of_the_rounds
    contest = ended("t5 (defaults)" => [100, 200, 400], "t5 --x" => [110, 200, 600])
    row = TuningFound.new({ json: contest }, ["", "--x"], [5]).groups[0].rows.last
    assert_in_delta 1.1, row.cpu_ratio
    assert_equal [1.0, 1.5], row.cpu_spread
  end

  def test_memory_is_compared_with_as_many_threads
    assert_equal [["(defaults)", 1, 1.0], ["--gc auto", 1, 0.5], ["(defaults)", 5, 1.0], ["--gc auto", 5, 0.25]], found.memory.map { |one| [one.way, one.threads, one.worker_ratio] }
  end

  def test_a_way_with_a_wrong_answer_has_no_figure
    contest = ended("t5 (defaults)" => [100], "t5 --x" => [110])
    contest.cells.last.failures = [["status 500", 3]]
    text = report(TuningFound.new({ json: contest }, ["", "--x"], [5])).markdown
    assert_match(/--x +\| no figure: 3 x status 500 \| +- \| +- \| +- \| +- \| +- \| +\|$/, text)
    assert_match(/\(defaults\) +\| +100 \| +1\.00 \(1\.00\) /, text)
  end

  def test_the_results_of_several_rubies_stand_beside_each_other
    combined = TuningCombined.new("new" => result("3.4 + YJIT", 1.3), "a" => result("3.1", 1.1), "b" => result("3.1", 1.2))
    text = combined.markdown
    assert_equal [[1.1, 1.2], [0.5, 0.5]], combined.choice("--gc auto", "3.1")
    assert_match(/^\| way +\| +Ruby 3\.1 \| +Ruby 3\.4 \+ YJIT +\|$/, text)
    assert_match(/^\| --gc auto \| CPU 1\.10-1\.20x, memory 0\.50x \| CPU 1\.30x, memory 0\.50x \|$/, text)
    assert_match(/^\| json: CPU +\| +1\.10x \| +1\.10x \|$/, text)
    assert_match(/^\| json +\| 5 threads, 16 connections, keep-alive +\| \(defaults\) +\| +110 \| +110 \|$/, text)
    refute_includes text, "**"
  end

  def test_a_wrong_answer_in_one_run_leaves_no_figure
    wrong = result("3.1", 1.2)
    wrong["results"].each { |group| group["servers"][1] = { "server" => "--gc auto", "wrong" => "3 x status 500" } }
    text = TuningCombined.new("a" => result("3.1", 1.1), "b" => wrong).markdown
    assert_match(/--gc auto +\| no figure: 3 x status 500 \|$/, text)
  end

  def test_what_is_no_such_result_is_refused
    assert_raises(Combined::Unusable) { TuningCombined.new("serve" => { "paired" => true }) }
    assert_raises(Combined::Unusable) { TuningCombined.read([__FILE__]) }
  end

  def test_the_name_of_a_ruby
    assert_equal ["3.1", "3.4", "3.4 + YJIT"], [TuningReport.ruby("3.1.2", yjit: true), TuningReport.ruby("3.4.5", yjit: nil), TuningReport.ruby("3.4.5", yjit: true)]
  end

  def test_variables_flags_and_pages_of_a_way
    command = TuningWay.new("MALLOC_CONF=x --oob-gc=false --warm-up {paths} --compact", 5).command(80, %w[/a /b?q=1])
    assert_equal %w[env MALLOC_CONF=x], command.first(2)
    assert_equal %w[--oob-gc=false --warm-up /a --warm-up /b?q=1 --compact], command.last(6)
    assert_equal %w[-t 5:5 --preload], TuningWay.new("puma", 5).command(80, []).last(3)
    assert_equal "t5 --warm-up _a", TuningWay.new("--warm-up /a", 5).name
  end

  private

  def found
    cpu = { "t1 (defaults)" => [100], "t1 --gc auto" => [150], "t5 (defaults)" => [110], "t5 --gc auto" => [220] }
    memory = { "t1 (defaults)" => 40, "t1 --gc auto" => 20, "t5 (defaults)" => 80, "t5 --gc auto" => 20 }
    TuningFound.new({ json: ended(cpu, memory) }, ["", "--gc auto"], [1, 5])
  end

  # CPU: {server's name => µs a request in each round}; MEMORY: {server's name => bytes of a worker}.
  def ended(cpu, memory = {})
    cells = cpu.flat_map do |server, rounds|
      rounds.each_with_index.map do |us, i|
        Visit::Cell.new(server: server, scenario: "json", shape: SHAPE, round: i + 1, rate: 10.0, p50: 0.1, p99: 0.2, cpu: us.to_f, requests: 9, failures: [], generator_busy: 0.1, elsewhere: 0)
      end
    end
    Ended.new(cells, memory.transform_values { |bytes| { boot: 1.0, memory: { worker: bytes, private_dirty: bytes, proportional: bytes } } }, {})
  end

  def report(found)
    facts = { "date" => "today", "processors" => 2, "processor" => "one", "load_before" => [0] }
    TuningReport.new(found, facts: facts, versions: { "paceline" => "1" }, options: TuningOptions.new(rounds: 5, seconds: 1.0, requests: 0), command: "a test", clock: Struct.new(:seconds).new(1))
  end

  # As it is read from a file, with CPU ratios of RATIO.
  def result(ruby, ratio)
    cpu = { "t1 (defaults)" => 100, "t1 --gc auto" => 100 * ratio, "t5 (defaults)" => 110, "t5 --gc auto" => 110 * ratio }
    found = TuningFound.new({ json: ended(cpu.transform_values { |us| [us] }, cpu.to_h { |name, _| [name, name.include?("gc") ? 20 : 40] }) }, ["", "--gc auto"], [1, 5])
    JSON.parse(JSON.generate(report(found).data)).merge("ruby" => ruby, "machine" => { "date" => "today", "processor" => "one", "processors" => 2, "kernel" => "6" })
  end
end
