# frozen_string_literal: true

# In each benchmark's report a wrong answer stands where the figures would. bench/test/contest_test.rb has the same for `bin/bench serve`, with servers.
require "minitest/autorun"
require_relative "../curve"
require_relative "../cache/report"
require_relative "../cache/story"
require_relative "../outbound/contest"
require_relative "../outbound/pages"
require_relative "../outbound/report"
require_relative "../outbound/workers"
require_relative "../pstore/report"
require_relative "../restart/report"
require_relative "../restart/visit"
require_relative "../xml/report"
require_relative "../xml/responses"

class RefusalTest < Minitest::Test
  include Bench

  WHY = "3 x status 500"
  FACTS = { "date" => "today", "processors" => 2, "processor" => "one", "load_before" => [0] }.freeze
  SHAPE = Shape.new(25, true)
  Clock = Struct.new(:seconds)

  def test_cache_hits
    assert_refused 6, CacheReport, :hits, summary, nil
  end

  def test_cache_hits_beside_misses
    cells = [CacheBesideMisses::ALONE, CacheBesideMisses::BESIDE].flat_map { |name| %w[nginx paceline].map { |server| cell(server, name) } }
    cells.last.failures = [["status 500", 3]]
    text = told(CacheReport, :misses, Summary.new(cells, {}, baseline: "nginx"), nil)
    assert_match(/paceline +\| +100 \| +1\.00 \| +2\.00 \| no figure: #{WHY} \| +- \| +- \| +\|$/, text)
  end

  def test_cache_hits_among_many_keys
    bad = cell("paceline", "10 keys")
    bad.failures = [["status 500", 3]]
    assert_match(/10 keys \| no figure: #{WHY} \| +- \| +- /, told(CacheReport, :keys, [Summary.new([bad], {}), { 10 => 1.0 }], nil))
  end

  def test_an_author_of_cached_pages
    result = ->(failure) { RedmineAuthor::Result.new(times: { "list" => [0.1] }, stale: [], cycles: 1, failure: failure) }
    authors = [CacheStory::Author.new(server: "paceline", idle: result[nil], busy: result["list: 500"]), CacheStory::Author.new(server: "nginx", idle: result[nil], busy: result[nil])]
    text = told(CacheReport, :authors, authors)
    assert_match(/paceline +\| no figure: list: 500 \| +- /, text)
    assert_match(/nginx +\| +1 \| +100\.0 /, text)
  end

  def test_xml_responses
    assert_refused 6, XmlReport, :responses, Struct.new(:summary).new(summary)
  end

  def test_sessions_in_stores
    assert_refused 6, PStoreReport, :requests, Struct.new(:summary).new(summary), options: Struct.new(:sessions, :clients).new(10, 2)
  end

  def test_outbound_calls
    floor, baseline = OutboundWays.named(%w[raw faraday])
    visits = [[floor, nil], [baseline, WHY]].map do |way, wrong|
      OutboundContest::Visit.new(way: way, first_ms: 1, first_cpu: 1, ms: [1], cpu: [1], front: 0, first_opened: 15, opened: 1, resumed: 0, versions: { "HTTP/1.1" => 15 }, wrong: wrong)
    end
    found = found(OutboundContest.rows([floor, baseline], visits), wire: OutboundContest::Wire.new(1, 1))
    assert_match(/faraday +\| no figure: #{WHY} \| +- /, told(OutboundReport, :contest, found))
  end

  def test_outbound_pages
    way = OutboundWays.named(%w[faraday]).first
    pages = ["newborn", "warm"].map { |kind| OutboundPages::Page.new(way: way.name, kind: kind, round: 1, seconds: 1, calls_ms: 1, cpu_ms: 1, opened: 1, wrong: (WHY if kind == "warm")) }
    assert_match(/faraday +\| no figure: #{WHY} \| +- /, told(OutboundReport, :pages, found(OutboundPages.rows([way], pages))))
  end

  def test_outbound_workers
    row = OutboundWorkers::Row.new(way: "faraday", title: "", calls: 1, seconds: 1, opened: 1, workers: 1, versions: [], wrong: WHY)
    assert_match(/faraday +\| no figure: #{WHY} \| +- /, told(OutboundReport, :workers, found([row])))
  end

  # How many failed is what `bin/bench restart` is about: that is told. Times of the others would flatter.
  def test_restarts
    during, quiet = [0.02, 0.01].map { |seconds| RestartVisit::Times.new(90, seconds, seconds, seconds) }
    seen = RestartVisit::Seen.new(way: "hot", title: "hot restart", server: "puma", note: "", restarts: 1, switched: [], failures: { "status 500" => 10 }, failed_kept: 5, failed_new: 5,
                                  failed_quiet: 0, first_failures: [], closed_idle: 0, quiet: quiet, during: during, memory_before: [1, 1], memory_peak: [1, 1], statuses: {}, elsewhere: 0)
    report = RestartReport.new(seen: [seen], absent: {}, facts: FACTS, versions: {}, options: Struct.new(:clients, :think_ms, :boot_ms, :work_ms).new(1, 1, 1, 1), command: "", seconds: 1)
    assert_match(/\| +190 \| +10 \| +5 \+ 5 \| +10\.0 \| +10\.0 \| +10 failed \| +- \| +- \| +- \|/, report.markdown)
  end

  def test_the_curve
    assert_equal "| 1 | 10 | puma | no figure: #{WHY} | - | - | - |", Curve.new([]).send(:line, 1, "10", { "server" => "puma", "wrong" => WHY })
  end

  private

  def cell(server, scenario = "page")
    Visit::Cell.new(server: server, scenario: scenario, shape: SHAPE, round: 1, rate: 100.0, p50: 0.001, p99: 0.002, cpu: 10.0, requests: 100, failures: [], generator_busy: 0.1, elsewhere: 0)
  end

  # One server without and one with wrong answers.
  def summary
    bad = cell("paceline")
    bad.failures = [["status 500", 3]]
    Summary.new([cell("nginx"), bad], {}, baseline: "nginx")
  end

  def found(rows, **more) = Struct.new(:rows, :place, :rounds, :cold_page, *more.keys).new(rows, Struct.new(:title).new("here"), 1, nil, *more.values)

  def told(report, section, *found, options: Struct.new(:requests).new(1))
    report.new({}, facts: FACTS, versions: {}, options: options, command: "", clock: Clock.new(1)).send(section, *found)
  end

  # COUNT cells without a figure, the first one with the reason; the other server has its own.
  def assert_refused(count, report, section, *found, **more)
    text = told(report, section, *found, **more)
    assert_match(/paceline +\| +no figure: #{WHY}#{' \| +-' * (count - 1)} \|/, text)
    assert_match(/nginx +\| +[\d.]+ \|/, text)
  end
end
