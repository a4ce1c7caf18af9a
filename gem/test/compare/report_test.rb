# frozen_string_literal: true

require "helper"
require "paceline/compare/load"
require "paceline/compare/report"

# The result as text.
class CompareReportTest < Minitest::Test
  include Paceline

  def result(rate: [1.24, 1.2, 1.29], p99: [0.96, 0.84, 1.09])
    ratio = ->(middle, low, high) { { "middle" => middle, "low" => low, "high" => high } }
    figures = ->(answers, cpu) { { "rate" => answers, "p50" => 22.94, "p99" => 49.1, "cpu_ms" => cpu, "switches" => 6.1, "system_calls" => nil, "bytes" => 10_712 } }
    memory = ->(megabytes, used) { { "pss" => (megabytes + 10) << 20, "private_dirty" => megabytes << 20, "slots_used" => used, "slots_free" => 212 } }
    side = ->(dir, *more) { { "dir" => dir, "versions" => "ruby 3.1.2", "start_seconds" => 2.0, "memory" => { "cold" => memory[98, 391_204], "after" => memory[*more] } } }
    { "settings" => { "environment" => "production", "workers" => 2, "threads" => 1, "clients" => 4, "rounds" => 7, "time" => 2.0, "requests" => 3000, "cookies" => true, "paths" => ["/beers"] },
      "sides" => { "A" => side["/srv/a", 142, 498_113], "B" => side["/srv/b\e[2J", 166, 471_900] },
      "pages" => { "/beers" => { "figures" => { "A" => figures[172.2, 10.9], "B" => figures[1214.0, 8.7] },
                                 "ratios" => { "rate" => ratio[*rate], "p50" => ratio[0.81, 0.78, 0.84], "p99" => p99 && ratio[*p99], "cpu_ms" => ratio[0.8, 0.77, 0.82], "switches" => nil } } },
      "not_known" => { "system_calls" => "perf is not installed" }, "remarks" => ["B, /beers: 3 of 9 answers are wrong (503)."] }
  end

  def test_tables
    text = Compare::Report.new(result).text
    assert_includes text, "A  /srv/a: ruby 3.1.2\nB  /srv/b\u{fffd}[2J: ruby 3.1.2\nproduction, 2 workers with 1 thread each, 4 clients with kept connections and a visitor's cookies, 7 rounds of 2 s in random order\n"
    [%r{^/beers +A +B  B / A$}, %r{^requests/s +172 +1,214  1\.24 \(1\.20 to 1\.29\)$}, /^median ms +22\.9 +22\.9  0\.81 \(0\.78 to 0\.84\)$/, /^CPU ms a request +10\.9 +8\.70  0\.80/,
     /^context switches a request +6\.10 +6\.10  1\.00$/, /^system calls a request +not known +perf is not installed$/, /^bytes +10,712 +10,712$/, /^private dirty MB, cold +98\.0 +98\.0  1\.00$/,
     /^memory MB \(PSS\), 3,000 requests +152 +176  1\.16$/, /^private dirty MB, 3,000 requests +142 +166  1\.17$/, /^heap slots used, 3,000 requests +498,113 +471,900  0\.95$/, /^s until ready +2\.00 +2\.00  1\.00$/, /^! B, .*wrong \(503\)\.$/]
      .each { |line| assert_match(line, text) }
    assert_operator text.lines.map(&:size).max, :<, 200
  end

  def test_sentences
    assert_includes Compare::Report.new(result).text, "/beers: B is 24 % faster (20 to 29); median 19 % lower (16 to 22); p99: no difference (-16.0 to +9.0 %); CPU a request 20 % less (18 to 23).\n" \
                                                      "After 3,000 requests B takes 24.0 MB more memory than A."
    report = Compare::Report.new(result(rate: [1.0, 0.9, 1.1], p99: nil))
    assert_match(%r{\A/beers: requests/s: no difference \(-10\.0 to \+10\.0 %\); median 19 % lower \(16 to 22\); CPU}, report.sentence("/beers", result(rate: [1.0, 0.9, 1.1], p99: nil)["pages"]["/beers"]))
  end

  def test_what_perf_counted
    assert_equal 4711, Compare::Load.counted("# started on Thu\n\n4711,,raw_syscalls:sys_enter,9,100.00,,\n")
    assert_nil Compare::Load.counted("<not counted>,,raw_syscalls:sys_enter,0,0.00,,\n")
  end

  def test_wrong_answers_are_those_that_failed_and_those_of_another_kind
    sample = Compare::Load::Sample.new(failures: { "timeout" => 2 }, statuses: { "200" => 5, "503" => 3, "302" => 1 })
    assert_equal 6, sample.wrong
  end
end
