# frozen_string_literal: true

# Servers that take turns, and what is said of those whose answers are wrong: whole contests of small servers, which answer as they are told to.
require "minitest/autorun"
require "tmpdir"
require_relative "../serve/contest"
require_relative "../serve/report"
require_relative "../lib/summary"

class ContestTest < Minitest::Test
  include Bench

  SCRIPT = File.expand_path("support/scripted_server.rb", __dir__)
  Settings = Struct.new(:generators, :access_log, :connections, :seconds, :rounds, :warm_up, :full, :servers, keyword_init: true)

  def setup
    @patience, RunningServer.wrong_limit = RunningServer.wrong_limit, 0.05
  end

  def teardown
    RunningServer.wrong_limit = @patience
  end

  def test_wrong_answers_leave_no_figure
    text = report("puma" => "right", "unicorn" => "500", "thin" => "404", "passenger" => "empty", "webrick" => "long", "paceline" => "sometimes")
    assert_match(/\| puma +\| +[\d,.]+ \| +1\.00 \(1\.00\) \|/, text)
    { "unicorn" => "unicorn answers /hello with status 500", "thin" => "thin answers /hello with status 404",
      "passenger" => "passenger answers /hello wrongly: 0 bytes instead of 6", "webrick" => "webrick answers /hello wrongly: 12 bytes instead of 6",
      "paceline" => '\d+ x /hello: status 500' }.each { |server, why| assert_match(/\| #{server} +\| +no figure: #{why} \| +- \| +- \| +- \| +- \| +- \| +- \| +- \| +- \|/, text) }
  end

  def test_work_that_a_generator_leaves_behind_is_waited_for
    leaves = Class.new(Generators::Ours) { def leaves_requests? = true }.new
    kind = Kind.new("hello", "/hello", expected: "hello\n")
    scenario = Scenarios.new("page", "a test", :rack, [kind], warm_up: 20)
    visit = Visit.new(server("puma", "lingers", nil), App.new(name: :rack, directory: Dir.tmpdir, environment: {}), [scenario], settings) { |*| nil }
    visit.start
    visit.measure(scenario, Shape.new(2, true), 1, leaves)
    before = visit.processes
    sleep 0.2
    assert_operator Processes.cpu_seconds(before, visit.processes), :<=, 0.02
  ensure
    visit.close
  end

  # It answers after 0.1 s, and the window is shorter.
  def test_a_window_is_long_enough_for_ten_answers
    told = []
    cell = contest({ "puma" => "slow" }, {}, { seconds: 0.05, told: told }).cells.first
    assert_empty cell.failures
    assert_operator cell.requests, :>=, Visit::ANSWERS
    assert_in_delta 20, cell.rate, 10
    assert(told.any? { |what| what.match?(/only \d answers in 0.05 s: once more/) }, told.join("\n"))
  end

  def test_a_server_that_ends_leaves_no_figure
    text = report("puma" => "right", "paceline" => "ends")
    assert_match(/\| puma +\| +[\d,.]+ \| +1\.00/, text)
    assert_match(/\| paceline +\| +no figure: /, text)
  end

  def test_nothing_is_compared_with_a_server_without_figures
    text = report("puma" => "sometimes", "paceline" => "right")
    assert_match(/\| puma +\| +no figure: \d+ x/, text)
    assert_match(/\| paceline +\| +[\d,.]+ \| +\|/, text)
  end

  def test_what_is_not_installed_is_left_out
    text = report({ "puma" => "right", "thin" => "right" }, "thin" => %w[no-such-program])
    refute_match(/\| thin/, text)
    assert_includes text, "- rack, thin: not installed: there is no `no-such-program`"
  end

  def test_system_calls_and_context_switches_are_counted
    contest = contest("puma" => "right")
    counted = contest.counted.first
    assert_operator counted.switches, :>, 0
    assert_operator counted.calls, :>=, 2, "a request is read and written" unless KernelCounts.missing
  end

  def test_each_round_has_an_order_of_its_own_and_the_same_in_each_run
    orders = (1..20).map { |round| Contest.order(%i[a b c], round) }
    assert_equal %i[a b c].permutation.to_a, orders.uniq.sort
    assert_equal orders, (1..20).map { |round| Contest.order(%i[a b c], round) }
  end

  def test_servers_take_turns_in_each_load
    contest = contest("puma" => "right", "paceline" => "right")
    assert_equal [["puma", 1], ["paceline", 1], ["paceline", 2], ["puma", 2]], contest.cells.map { |cell| [cell.server, cell.round] }
  end

  def test_percentiles_of_a_generator_that_tells_no_more
    told = Class.new(Generators::Ours) { def load(**plan) = Load.new(**plan, percentiles: true) }.new
    cell = contest({ "puma" => "right" }, {}, { generators: [told] }).cells.first
    assert_operator 0, :<, cell.p50
    assert_operator cell.p50, :<, cell.p99
  end

  # Two that are ours under two names.
  def test_generators_take_turns_in_each_load
    other = Class.new(Generators::Ours) { def name = "other" }.new
    contest = contest({ "puma" => "right", "paceline" => "right" }, {}, { generators: [Generators::OURS, other] })
    assert_equal [%w[puma ours], %w[paceline ours], %w[puma other], %w[paceline other]], contest.cells.first(4).map { |cell| [cell.server, cell.generator] }
    assert_equal ["ours"], contest.counted.map(&:generator).uniq
    assert_equal [["ours", 2], ["other", 2]], Summary.of({ rack: contest }).groups.map { |group| [group.generator, group.rows.count(&:rate_ratio)] }
  end

  def test_a_probe_sees_each_server_in_each_round_before_its_loads
    seen = []
    contest({ "puma" => "right", "paceline" => "right" }, {}, { probe: ->(visit, round) { seen << [visit.server.name, round, visit.workers.size] } })
    assert_equal [["puma", 1, 1], ["paceline", 1, 1], ["paceline", 2, 1], ["puma", 2, 1]], seen
  end

  def test_a_probe_that_fails_leaves_its_server_out
    contest = contest({ "puma" => "right", "paceline" => "right" }, {}, { probe: ->(visit, _) { raise RunningServer::Failed, "no header" if visit.server.name == "paceline" } })
    assert_equal({ "paceline" => "no header" }, contest.absent)
    assert_equal %w[puma puma], contest.cells.select { |cell| cell.failures.empty? }.map(&:server)
  end

  def test_a_server_may_have_its_own_application
    told = ->(text) { App.new(name: :told, directory: Dir.tmpdir, environment: { "BENCH_TOLD" => text }) }
    apps = { "puma" => told["one"], "paceline" => told["two"] }
    seen = []
    probe = ->(visit, _) { seen << File.read("/proc/#{visit.workers.first}/environ")[/BENCH_TOLD=(\w+)/, 1] }
    contest({ "puma" => "right", "paceline" => "right" }, {}, { apps: apps, probe: probe })
    assert_equal %w[one two two one], seen
  end

  def test_nothing_of_the_servers_stays
    contest("puma" => "right", "paceline" => "500")
    assert_empty Processes.new.tree.keys
  end

  private

  def contest(modes, programs = {}, more = {})
    kind = Kind.new("hello", "/hello", expected: "hello\n")
    scenario = Scenarios.new("page", "a test", :rack, [kind], warm_up: 20)
    entries = modes.map { |name, mode| [server(name, mode, programs[name]), [scenario], more.dig(:apps, name)] }
    Contest.new(App.new(name: :rack, directory: Dir.tmpdir, environment: {}), entries, settings(entries, more[:generators], more[:seconds] || 0.2), probe: more[:probe]) { |_, what, _| more[:told]&.push(what) }.run
  end

  def settings(entries = [], generators = nil, seconds = 0.2)
    Settings.new(generators: generators, access_log: true, connections: [2], seconds: seconds, rounds: 2, warm_up: nil, full: false, servers: entries.map(&:first))
  end

  def server(name, mode, programs)
    Server.new(name: name, worker: /scripted worker/, workers: 1, threads: 1, programs: programs, command: ->(port, _) { ["ruby", SCRIPT, port, mode] })
  end

  def report(modes, programs = {})
    contests = { rack: contest(modes, programs) }
    Report.new(contests: contests, summary: Summary.of(contests), facts: { "processors" => 2, "load_before" => [] }, versions: {}, options: settings, command: "a test", seconds: 1).markdown
  end
end
