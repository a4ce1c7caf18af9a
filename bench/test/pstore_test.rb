# frozen_string_literal: true

# `bin/bench pstore`: its sums, its visitors, and that its stores do what they are measured by. Nothing is measured.
require "minitest/autorun"
require "tmpdir"
require_relative "../pstore/contest"
require_relative "../pstore/report"
require_relative "../pstore/visitors"

class PStoreBenchTest < Minitest::Test
  include Bench

  def test_a_record_is_as_large_as_is_said
    assert_in_delta 1074, Marshal.dump(PStoreSession.make(1)).bytesize, 10
    assert_equal PStoreSession.make(7), Marshal.load(PStoreSession.dumped(1_007))
    refute_equal PStoreSession.name(7), PStoreSession.name(1_007)
  end

  def test_updates_are_added_up_as_a_process_makes_them
    assert_equal({ 5 => 3, 6 => 2, 7 => 1 }, PStoreContest.tally([5, 6, 5, 7], 6))
    assert_equal({ 5 => 1 }, PStoreContest.tally([5, 6, 5, 7], 1))
    assert_equal PStoreMeasured.numbers(100, 3), PStoreMeasured.numbers(100, 3)
    refute_equal PStoreMeasured.numbers(100, 3), PStoreMeasured.numbers(100, 4)
    assert_equal [0], PStoreMeasured.numbers(1, 3).uniq
  end

  def test_what_counters_lack_is_lost
    loss = PStoreContest.loss("redis", 10, { 1 => 5, 3 => 7 }, [5, 4])
    assert_equal [12, 3], [loss.updates, loss.lost]
  end

  def test_rounds_become_medians
    one = ->(count, wall, cpu) { { "count" => count, "wall" => wall, "cpu" => cpu } }
    row = PStoreContest.row("files", 10, "read", alone: [one[10, 1.0, 0.5], one[10, 3.0, 0.6], one[20, 4.0, 2.0]],
                                                 together: [[one[10, 1.0, 0.5], one[30, 2.0, 0.5]], [one[50, 1.0, 0.5]]])
    assert_equal [200_000.0, 60_000.0, 37.5], [row.us, row.cpu, row.together]
    assert_nil PStoreContest.row("tokyo", 10, "read", alone: [one[10, 1.0, 0.5]], together: []).together
  end

  def test_flatness_is_of_the_most_to_the_fewest_records
    row = ->(records, what, us) { PStoreContest::Row.new(way: "paceline", records: records, what: what, us: us) }
    rows = [row[100, "read", 1.0], row[1, "read", 40.0], row[1_000, "read", 50.0], row[1, "update", 100.0], row[1_000, "update", 110.0]]
    assert_equal({ "paceline" => [1.25, 1.1] }, PStoreReport.flatness(rows))
    assert_equal({ "paceline" => [nil, nil] }, PStoreReport.flatness([row[1, "read", 40.0], row[1, "update", 40.0]]))
  end

  def test_stores_read_what_was_filled_and_count_what_was_updated
    Dir.mktmpdir do |folder|
      PStoreWays.named(%w[paceline pstore files]).each do |way|
        FileUtils.mkdir_p(File.join(folder, way.name))
        store = way.make.call(File.join(folder, way.name))
        store.fill(5)
      rescue LoadError, StandardError => e
        raise unless way.name == "paceline" && e.message.include?("native part")
      else
        2.times { store.update(PStoreSession.name(3)) }
        again = way.make.call(File.join(folder, way.name))
        assert_equal PStoreSession.make(4), again.read(PStoreSession.name(4)), way.name
        assert_equal [0, 2], again.counters([4, 3].map { |number| PStoreSession.name(number) }), way.name
      end
    end
  end

  def test_two_stores_in_one_process_are_two
    Dir.mktmpdir do |folder|
      PStoreWays.named(%w[pstore files sqlite activerecord]).each do |way|
        stores = %w[one other].map do |name|
          place = File.join(folder, way.name, name)
          FileUtils.mkdir_p(place)
          way.make.call(place).tap { |store| store.fill(2) }
        end
        stores.first.update(PStoreSession.name(1))
        assert_equal [[1], [0]], stores.map { |store| store.counters([PStoreSession.name(1)]) }, way.name
      rescue LoadError
        # It is compared with where bin/setup bench has been.
      end
    end
  end

  def test_a_process_answers_and_says_what_it_can_not_do
    process = PStoreProcess.new("pstore")
    Dir.mktmpdir do |folder|
      place = { records: 3, folder: folder, index: 0 }
      process.ask(:fill, **place)
      process.ask(:prepare, seed: 1, **place)
      found = process.ask(:go, what: "update", seconds: 0)
      assert_equal 1, found["count"]
      assert_equal [1], process.ask(:counters, numbers: PStoreMeasured.numbers(3, 1).first(1), **place)["counters"]
    end
    assert_match(/Errno::ENOENT|PStore::Error/, assert_raises(PStoreProcess::Failed) { process.ask(:fill, records: 4, folder: "/nowhere", index: 0) }.message)
  ensure
    process&.close
  end

  # A server that counts the visits of each cookie, and gives one to who has none.
  def test_a_visitor_sends_its_own_cookie_and_counts_its_visits
    visits = Hash.new(0)
    found = visiting(visits) { |port| Visits.new(port: port, cookies: [nil, nil], connections: 1, count: 6).run }
    assert_equal [6, []], [found.completed, found.failures]
    assert_equal [3, 3], visits.values
    assert_equal visits.keys.sort, found.cookies.sort
    # In another process the same visitors go on.
    found = visiting(visits) { |port| Visits.new(port: port, cookies: found.cookies, connections: 1, count: 4).run }
    assert_equal [4, [], [5, 5]], [found.completed, found.failures, visits.values]
  end

  def test_a_visit_that_is_not_counted_is_wrong
    stuck = visiting(Hash.new(4), step: 0) { |port| Visits.new(port: port, cookies: ["a=b"], connections: 1, count: 2).run }
    assert_equal [["/visit: counts 4 after 4", 1]], stuck.failures
    other = visiting(Hash.new(0), page: "<h1>Error</h1>") { |port| Visits.new(port: port, cookies: [nil], connections: 1, count: 1).run }
    assert_equal [["/visit: the page is another", 1]], other.failures
  end

  def test_a_report_tells_figures_losses_and_what_was_not_run
    contest = PStoreContest.allocate
    rows = %w[paceline pstore].product([1, 1_000], %w[read update]).map { |way, records, what| PStoreContest::Row.new(way: way, records: records, what: what, us: 50.0, cpu: 40.0, together: 30_000.0) }
    { rows: rows, losses: [PStoreContest::Loss.new(way: "pstore", records: 1, updates: 100, lost: 72)], bytes: { "paceline" => { 1 => 36_864 } }, absent: { "redis" => "none" }, fsync: 0.0002 }
      .each { |name, value| contest.instance_variable_set("@#{name}", value) }
    options = Struct.new(:rounds, :records, :processes, :ways).new(1, [1, 1_000_000], 4, PStoreWays.named(%w[paceline pstore redis]))
    facts = { "date" => "today", "processors" => 2, "processor" => "P", "ruby" => "ruby", "kernel" => "k", "memory_mb" => 1, "load_before" => [0.1] }
    text = PStoreReport.new({ "stores" => contest }, facts: facts, versions: {}, options: options, command: "bin/bench pstore", clock: Struct.new(:seconds).new(60)).markdown
    assert_match(/\| Paceline::PStore +\| +1 \| +50 \| +40 \| +20,000 \| +30,000 \|/, text)
    assert_match(/\| Ruby's PStore +\| +1 \| +100 \| +72 \|/, text)
    assert_includes text, "takes 200 µs"
    assert_includes text, "- stores, redis: none"
    assert_includes text, "- Ruby's PStore, more than 10,000 records: not run"
  end

  private

  def visiting(visits, step: 1, page: nil)
    listener = TCPServer.new("127.0.0.1", 0)
    serving = Thread.new do
      socket = listener.accept
      while socket.gets
        cookie = nil
        while (line = socket.gets) && line != "\r\n"
          cookie = line[/\ACookie: (.*)\r\n/, 1] || cookie
        end
        fresh = cookie.nil?
        cookie ||= "_visit=#{visits.size}%3D"
        visits[cookie] += step
        body = page || "<h1>Visit #{visits[cookie]}</h1><ul></ul>"
        socket.write("HTTP/1.1 200 OK\r\n#{"set-cookie: #{cookie}; path=/; HttpOnly\r\n" if fresh}content-length: #{body.bytesize}\r\n\r\n#{body}")
      end
      socket.close
    end
    yield listener.addr[1]
  ensure
    serving.join
    listener.close
  end
end
