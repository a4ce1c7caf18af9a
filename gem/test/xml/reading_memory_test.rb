# frozen_string_literal: true

require_relative "support/reading_helper"

# What the native part builds stays whole under the collector, and nothing of it stays behind.
class ReadingMemoryTest < Paceline::Test
  include ReadingHelper

  def setup
    skip "there is no native part" unless Reading.native?
    super
  end

  def documents
    Array.new(3) { |seed| RandomDocuments.new(seed, typed: true).document }
  end

  def convert(document)
    Hash.from_xml(document, []).inspect.gsub(/0x\h+/, "")
  rescue StandardError => e
    e.class.name
  end

  def test_under_stress_of_the_collector
    expected = documents.map { |document| [XmlMini.parse(document).inspect, convert(document)] }
    found = documents.map do |document|
      GC.stress = true
      hash = XmlMini.parse(document)
      GC.stress = false
      [hash.inspect, convert(document)]
    end
    assert_equal expected, found
  ensure
    GC.stress = false
  end

  def test_conversion_under_stress_of_the_collector
    document = "<a><b type='integer'>1</b><c type='file'>YWJj</c><d type='array'><e>#{"x" * 100}</e><e/></d><f-g>h</f-g></a>"
    plain = ->(hash) { hash["a"].transform_values { |value| value.is_a?(StringIO) ? value.string : value } }
    expected = plain[Hash.from_xml(document)]
    GC.stress = true
    hash = Hash.from_xml(document)
    error = (XmlMini.parse("<a><b></a>") rescue $!)
    GC.stress = false
    assert_equal expected, plain[hash]
    assert_includes error.message, "element \"b\" is open"
  ensure
    GC.stress = false
  end

  def test_while_objects_move
    return if apart

    skip "no compaction here" unless GC.respond_to?(:compact)
    parsing = XmlMini::PARSING
    before = parsing["integer"]
    compacted = 0
    parsing["integer"] = ->(text) { GC.compact if (compacted += 1) % 5 == 1; text.to_i }
    document = "<a>#{(1..20).map { |n| "<n#{n} type='integer'>#{n}</n#{n}><t k#{n}='v'>text #{n} &amp;</t>" }.join}</a>"
    hash = Hash.from_xml(document)
    GC.compact
    assert_equal (1..20).to_a, (1..20).map { |n| hash["a"]["n#{n}"] }
    assert_equal (1..20).map { |n| "text #{n} &" }, hash["a"]["t"]
    assert_equal 20, compacted
  rescue NotImplementedError
    skip "no compaction here"
  ensure
    parsing["integer"] = before if parsing
  end

  # An exception in the midst of building, while objects are alive that nobody else holds.
  def test_being_interrupted
    document = "<a>#{"<b>x</b>" * 20_000}</a>"
    thrown = 0
    20.times do
      ready = Queue.new
      thread = Thread.new do
        Thread.current.report_on_exception = false
        ready << 1
        loop { XmlMini.parse(document) }
      end
      ready.pop
      thread.raise(Interrupt)
      assert_raises(Interrupt) { thread.value }
      thrown += 1
    end
    assert_equal 20, thrown
  end

  def test_a_reading_is_built_once
    reading = Reading.convertible("<a><b type='integer'>1</b></a>")
    assert_equal({ "a" => { "b" => 1 } }, reading.build(XmlMini::PARSING, [], StandardError))
    assert_raises(RuntimeError) { reading.build(XmlMini::PARSING, [], StandardError) }
    assert_raises(TypeError) { Paceline::Native::XmlReading.allocate }
    assert_raises(ArgumentError) { Paceline::Native::XmlReading.read("<a/>", [1], false) }
  end

  # Bytes of this process in memory that are its own.
  def resident
    Integer(File.read("/proc/self/statm").split[1]) * 4096
  end

  def test_nothing_stays_behind
    large = "<a>#{"<b c='1'>&amp;x</b>" * 2000}</a>"
    typed = "<a>#{"<b type='integer'>1</b>" * 2000}</a>"
    round = lambda do
      XmlMini.parse(large)
      Hash.from_xml(typed)
      Reading.convertible(large)
      [large.chop, typed + "x", "<a b='"].each { |broken| XmlMini.parse(broken) rescue nil }
      Hash.from_xml("<a><b type='yaml'/>#{large}</a>") rescue nil
    end
    60.times { round.call }
    GC.start
    before = resident
    180.times { round.call }
    GC.start
    # One document takes about a megabyte while it is read: what 180 of them left would be seen.
    assert_operator resident - before, :<, 40 << 20
  end
end
