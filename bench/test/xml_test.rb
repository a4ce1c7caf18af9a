# frozen_string_literal: true

# `bin/bench xml`: its documents, the check for the same bytes, and its sums. Nothing is measured.
require "minitest/autorun"
require "builder"
require_relative "../xml/contest"
require_relative "../xml/erb"
require_relative "../xml/floor"
require_relative "../xml/measured"
require_relative "../xml/parsers"
require_relative "../xml/report"
require_relative "../xml/writers"

class XmlBenchTest < Minitest::Test
  include Bench

  def test_the_documents_are_as_large_as_is_said
    builder = XmlWriters.make("builder")
    assert_equal 216, builder.work("small").call.bytesize
    %w[feed board].each { |name| assert_in_delta 54_000, builder.work(name).call.bytesize, 500 }
    assert_in_delta 56_000, XmlParsers.document.bytesize, 500
  end

  def test_what_needs_no_other_package_gives_builders_bytes
    builder = XmlWriters.make("builder")
    Documents::NAMES.product([XmlErb.new, XmlFloor.new]) { |name, writer| assert_equal builder.work(name).call, writer.work(name).call, name }
  end

  def test_a_result_is_written_anew_each_time
    [XmlWriters.make("builder"), XmlErb.new, XmlFloor.new].each do |writer|
      work = writer.work("small")
      first = work.call.dup
      refute_same work.call, work.call
      assert_equal first, work.call
    end
  end

  def test_dispatch_runs_the_whole_template_and_writes_nothing
    seen = []
    silent = Class.new(XmlWriters::Silent) { define_method(:method_missing) { |name, *args, &block| seen << name; super(name, *args, &block) } }
    assert_equal "", XmlWriters::Speaking.new { silent.new }.work("small").call
    assert_equal %i[instruct! order to by item crates at cold note], seen
  end

  def test_a_difference_is_told_with_its_place
    assert_nil XmlContest.difference("<a>ü</a>", "<a>ü</a>".b)
    assert_equal %(from byte 6 on "<note>&quot;x</note>" instead of "<note>'x</note>"), XmlContest.difference("<note>'x</note>", "<note>&quot;x</note>")
    assert_match(/\Afrom byte 2 on/, XmlContest.difference("<a/>", "<a>"))
    assert_match(/\Afrom byte 4 on/, XmlContest.difference("<a/>", "<a/>\n"))
  end

  def test_ratios_are_those_of_the_same_round
    base = [[100.0, 50], [300.0, 50], [90.0, 50]]
    row = XmlContest.row("feed", "quick", [[10.0, 5], [10.0, 5], [30.0, 5]], base)
    assert_equal [10.0, 10.0, 30.0, 5], [row.us, row.least, row.most, row.objects]
    # 10, 30 and 3 times: the median of them, not the ratio of the medians.
    assert_equal 10.0, row.times
    assert_nil XmlContest.row("feed", "alone", [[10.0, 5]], []).times
  end

  def test_a_process_answers_and_takes_turns
    process = XmlProcess.new("writers", "floor")
    assert_equal XmlFloor.new.small, process.result("small").force_encoding("UTF-8")
    us, objects = process.measure("small", 0.001)
    assert_operator us, :>, 0
    assert_operator objects, :>, 0
  ensure
    process&.close
  end

  def test_who_can_not_be_measured_says_why
    assert_match(/LoadError.*nosuchbackend/, assert_raises(XmlProcess::Failed) { XmlProcess.new("parsing", "NoSuchBackend") }.message)
  end

  def test_a_contest_leaves_out_who_can_not_take_part_and_tells_other_bytes
    way = ->(name, **more) { XmlContest::Way.new(name: name, title: name, **more) }
    options = Struct.new(:rounds, :seconds).new(1, 0.001)
    contest = XmlContest.new("writers", [way["builder"], way["no_such_writer"], way["dispatch", mute: true], way["floor"]], %w[small], baseline: "builder", options: options) { |*| nil }
    contest.run
    assert_equal %w[builder dispatch floor], contest.rows.map(&:way)
    assert_equal ["no_such_writer"], contest.absent.keys
    assert_equal [nil], contest.rows.map(&:differs).uniq
    assert_equal({ "small" => 216 }, contest.bytes)
  end

  def test_hashes_are_the_same_in_whatever_order
    measured = XmlMeasured.new(Struct.new(:value) { def work(_) = -> { value } }.new({ "b" => [1, { "d" => 2, "c" => nil }], "a" => "x" }))
    assert_equal '{"a"=>"x", "b"=>[1, {"c"=>nil, "d"=>2}]}', [measured.result("any")["result"]].pack("H*")
  end

  def test_allocations_are_counted_for_one_document
    measured = XmlMeasured.new(Struct.new(:count) { def work(_) = -> { Array.new(count) { Object.new } } }.new(10))
    assert_equal 11, measured.measure("any", 0.001)["objects"]
  end

  def test_a_report_tells_figures_differences_and_who_is_missing
    contest = XmlContest.allocate
    rows = [XmlContest.row("feed", "builder", [[15_000.0, 900]], [[15_000.0, 900]]), XmlContest.row("feed", "ox", [[7.25, 3]], [[15_000.0, 900]], "from byte 3 on")]
    { rows: rows, absent: { "libxml" => "LoadError: none" }, bytes: { "feed" => 54_000 } }.each { |name, value| contest.instance_variable_set("@#{name}", value) }
    facts = { "date" => "today", "processors" => 2, "processor" => "P", "ruby" => "ruby", "kernel" => "k", "memory_mb" => 1, "load_before" => [0.1] }
    options = Struct.new(:rounds, :seconds).new(1, 0.3)
    text = XmlReport.new({ "writers" => contest }, facts: facts, versions: { "ruby-ox" => "2" }, options: options, command: "bin/bench xml", clock: Struct.new(:seconds).new(60)).markdown
    assert_match(/\| feed +\| builder +\| 15,000 .* 1\.00 .* 900/, text)
    assert_match(/\| ox +\| +7\.25 .* 2069 .* 3 /, text)
    assert_includes text, "- ox, feed: from byte 3 on"
    assert_includes text, "- writers, libxml: LoadError: none"
  end
end
