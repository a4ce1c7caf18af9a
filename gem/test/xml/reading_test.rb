# frozen_string_literal: true

require_relative "support/reading_helper"

# XmlMini's backend: hashes, mistakes, limits, encodings. Without the native part: reading_by_rexml_test.rb.
class ReadingTest < Paceline::Test
  include ReadingHelper

  def setup
    skip "there is no native part" unless Reading.native?
    super
  end

  def test_nothing_is_an_empty_hash
    [nil, "", StringIO.new(""), false].each { |nothing| assert_equal({}, XmlMini.parse(nothing)) }
    assert_raises(TypeError) { XmlMini.parse(7) }
  end

  def test_hashes
    {
      "<a/>" => { "a" => {} },
      "<a b='1'> </a>" => { "a" => { "b" => "1", "__content__" => " " } },
      "<a> <b/> </a>" => { "a" => { "b" => {} } },
      "<a>x<b>1</b>y<b>2</b><b/></a>" => { "a" => { "b" => [{ "__content__" => "1" }, { "__content__" => "2" }, {}], "__content__" => "xy" } },
      "<a b='1'><b/></a>" => { "a" => { "b" => ["1", {}] } },
      "<a>1<![CDATA[<2>]]><!-- x -->3<?p?></a>" => { "a" => { "__content__" => "1<2>3" } },
      "<a><![CDATA[]]></a>" => { "a" => { "__content__" => "" } },
      "<a>&#32;<b/></a>" => { "a" => { "b" => {}, "__content__" => " " } },
      "<x:a xmlns:x='u' x:b='1' xml:lang='e'><x:c/><c/></x:a>" =>
        { "a" => { "xmlns:x" => "u", "x:b" => "1", "xml:lang" => "e", "c" => [{}, {}] } },
      "<a __content__='1'>x</a>" => { "a" => { "__content__" => %w[1 x] } },
      " \n<?xml version='1.0'?><a>\u20AC\r\n&#13;</a>\n" => { "a" => { "__content__" => "\u20AC\n\r" } },
      "<!DOCTYPE a SYSTEM 'http://127.0.0.1:9/x' [<!ENTITY e 'v'><!ATTLIST a c CDATA 'd'>]><a b='&e;'>&e;&e;</a>" =>
        { "a" => { "b" => "v", "__content__" => "vv" } }
    }.each { |document, hash| assert_equal hash.inspect, read(document) }
  end

  def test_strings_are_new_and_keys_are_shared
    hash = XmlMini.parse("<a b='1'>x<b/></a>")
    assert_equal [Encoding::UTF_8], [*hash.keys, *hash["a"].keys, hash["a"]["__content__"], hash["a"]["b"][0]].map(&:encoding).uniq
    refute_predicate hash["a"]["__content__"], :frozen?
    assert_same(-"__content__", hash["a"].keys.last)
    document = +"<a>xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx</a>"
    hash = XmlMini.parse(document)
    document.replace("")
    assert_equal "x" * 45, hash["a"]["__content__"]
  end

  def test_mistakes_are_those_that_callers_of_rexml_expect
    error = assert_raises(REXML::ParseException) { XmlMini.parse("<a>\n  <b>\u20AC</a>") }
    assert_kind_of Paceline::XML::ParseError, error
    assert_equal [2, 7], [error.line, error.column]
    assert_equal "end tag \"</a>\" where element \"b\" is open (line 2, column 7)", error.message
    assert_equal error.message, error.to_s
    assert_includes error.full_message(highlight: false), error.message
  end

  def test_what_is_not_well_formed
    ["<a/><b/>", "<a/>x", "x<a/>", "\uFEFF\uFEFF<a/>", " ", "<a>", "<a", "</a>", "<a></b>", "<a b='1' b='2'/>", "<a b/>", "<a b=1/>", "<a b='<'/>", "<a b='1'c='2'/>",
     "<a>&x;</a>", "<a>& </a>", "<a>&#0;</a>", "<a>\u0001</a>", "<a>\uFFFE</a>", "<a>\xFF</a>", "<a>]]></a>", "<a><!-- -- --></a>", "<x:a/>", "<a x:b=''/>",
     "<a xmlns:x='1' xmlns:y='1' x:b='' y:b=''/>", "<a:b:c/>", "<1/>", "<a><?xml version='1.0'?></a>", "<?xml version='2.0'?><a/>", "<a b='1' />\0",
     "<a/><!DOCTYPE a>", "<!DOCTYPE a [%p;]><a/>", "<!DOCTYPE a [<!ENTITY e '<b/>'>]><a>&e;</a>",
     "<!DOCTYPE a [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><a>&e;</a>", "<!DOCTYPE a [<!ENTITY e '&e;'>]><a>&e;</a>"].each do |document|
      assert_operator read(document), :start_with?, "! ", document.inspect
    end
  end

  def test_encodings
    umlaut = { "a" => { "__content__" => "\u00E4" } }.inspect
    latin = "<a>\xE4</a>".b
    declared = "<?xml version='1.0' encoding='ISO-8859-1'?>".b + latin
    utf16 = "<?xml version='1.0' encoding='UTF-16'?><a>\u00E4</a>"
    [declared, declared.dup.force_encoding("UTF-8"), latin.dup.force_encoding("ISO-8859-1"), "<a>\u00E4</a>".b,
     "<?xml version='1.0' encoding=\"windows-1252\" ?><a>\xE4</a>", "\uFEFF<a>\u00E4</a>", "\uFEFF#{utf16}".encode("UTF-16LE").b,
     "\uFEFF#{utf16}".encode("UTF-16BE").b, utf16.encode("UTF-16BE"), "\uFEFF#{utf16}".encode("UTF-32LE").b, utf16].each do |document|
      assert_equal umlaut, read(document), document.inspect
      assert_equal umlaut, XmlMini.parse(StringIO.new(document)).inspect, document.inspect
    end
  end

  def test_an_encoding_that_shifts
    document = "<?xml version='1.0' encoding='ISO-2022-JP'?><a>\u65E5\u672C</a>".encode("ISO-2022-JP")
    assert_equal({ "a" => { "__content__" => "\u65E5\u672C" } }.inspect, read(document))
    assert_includes read("<?xml version='1.0' encoding='UTF-7'?><a/>"), "can't be read as UTF-7"
  end

  def test_encodings_that_are_wrong
    { "<?xml version='1.0' encoding='bogus'?><a/>" => "encoding \"bogus\" is not known",
      "<?xml version='1.0' encoding='us-ascii'?><a>\u00E4</a>" => "can't be read as US-ASCII",
      "\xFF\xFE<\0a".b => "can't be read as UTF-16LE",
      "<a>\n\xE4</a>".b => "not valid UTF-8 (line 2, column 1)" }.each do |document, message|
      assert_includes read(document), message
    end
  end

  def test_limits
    Reading.limits.bytes = 60
    Reading.limits.elements = 3
    Reading.limits.attributes = 2
    Reading.limits.expansion = 5
    XmlMini.depth = 2
    assert_equal({ "a" => { "b" => "", "c" => "", "d" => [{}, {}] } }.inspect, read("<a b='' c=''><d/><d/></a>"))
    { "<a><b><c/></b></a>" => "The document is too deep (line 1, column 7)", "<a><b/><b/><b/></a>" => "more than 3 elements",
      "<a b='' c='' d=''/>" => "more than 2 attributes", "<a>#{"x" * 60}</a>" => "larger than 60 bytes",
      "<!DOCTYPE a [<!ENTITY e '12'>]><a>&e;&e;</a>" => "grow beyond its limit",
      "<a>#{"\u00E4" * 30}</a>".encode("ISO-8859-1") => "larger than 60 bytes" }.each do |document, message|
      assert_includes read(document), message
    end
    XmlMini.depth = -1
    assert_equal({ "a" => { "b" => { "c" => {} } } }, XmlMini.parse("<a><b><c/></b></a>"))
    XmlMini.depth = 0
    assert_includes read("<a/>"), "too deep"
  end

  # From a source without an end no more is taken than may be.
  def test_what_is_too_large_is_not_read
    Reading.limits.bytes = 1000
    taken = 0
    endless = Object.new
    endless.define_singleton_method(:read) { |length| "x" * [length, 300].min.tap { |count| taken += count } }
    assert_raises(REXML::ParseException) { XmlMini.parse(endless) }
    assert_equal 1001, taken
  end

  def test_depth_of_a_hundred_and_far_beyond
    deep = ->(levels) { "<a>" * levels + "</a>" * levels }
    assert_operator read(deep[100]), :start_with?, "{"
    assert_includes read(deep[101]), "too deep"
    XmlMini.depth = -1
    hash = XmlMini.parse(deep[50_000])
    levels = 0
    levels += 1 while (hash = hash["a"])
    assert_equal 50_000, levels
  end

  def test_bombs_are_refused_quickly
    laughs = (1..20).map { |level| "<!ENTITY e#{level} '#{"&e#{level - 1};" * 10}'>" }.join
    assert_includes read("<!DOCTYPE a [<!ENTITY e0 'ha'>#{laughs}]><a>&e20;</a>"), "entit"
    nothing = laughs.sub("&e0;" * 10, "")
    assert_includes read("<!DOCTYPE a [#{nothing}]><a>#{"&e12;" * 3}</a>"), "beyond its limit"
    assert_includes read("<!DOCTYPE a [<!ENTITY e '#{"x" * 50_000}'>]><a>#{"&e;" * 50_000}</a>"), "beyond its limit"
  end

  # The one class that docs/xml.md names, by each door; to code that rescues what the REXML backend raises it is a RuntimeError.
  def test_the_error_of_a_bomb
    laughs = (1..6).map { |level| "<!ENTITY e#{level} '#{"&e#{level - 1};" * 10}'>" }.join
    bombs = ["<!DOCTYPE a [<!ENTITY e0 'ha'>#{laughs}]><a>&e6;</a>", "<!DOCTYPE a [<!ENTITY e0 'ha'>#{laughs}]><a b='&e6;'/>", "<!DOCTYPE a [<!ENTITY e '&e;'>]><a>&e;</a>",
             "<!DOCTYPE a [<!ENTITY e '#{"x" * 50_000}'>]><a>#{"&e;" * 50_000}</a>"]
    bombs.each do |bomb|
      [-> { Hash.from_xml(bomb) }, -> { XmlMini.parse(bomb) }, -> { XmlMini.parse(StringIO.new(bomb)) }, -> { Reading.parse(bomb) }].each do |door|
        error = assert_raises(RuntimeError, &door)
        assert_instance_of Paceline::XML::ParseError, error
        assert_match(/\Aentity "e\d*" (makes the document grow beyond its limit|holds itself)/, error.message)
      end
    end
  end

  def test_many_of_everything
    many = (1..900).map { |n| "a#{n}='#{n}'" }.join(" ")
    hash = XmlMini.parse("<r>#{(1..2000).map { |n| "<n#{n} #{many if n < 5}/>" }.join}#{"<e>&amp;</e>" * 5000}</r>")["r"]
    assert_equal [2001, 900, 5000], [hash.size, hash["n1"].size, hash["e"].size]
  end

  def test_threads_and_fibers_read_at_once
    document = RandomDocuments.new(5).document
    expected = XmlMini.parse(document)
    hashes = Array.new(4) { Thread.new { Array.new(50) { XmlMini.parse(document) } } }.flat_map(&:value)
    assert_equal [expected], hashes.uniq
    assert_equal(expected, Fiber.new { XmlMini.parse(document) }.resume)
  end

  def test_rexml_is_not_loaded
    script = 'require "active_support"; require "active_support/core_ext/hash/conversions"; ActiveSupport::XmlMini.backend = "Paceline"
              begin; Hash.from_xml("<a>"); rescue REXML::ParseException => e; print e.class, defined?(REXML::Document).inspect; end'
    out = IO.popen([RbConfig.ruby, "-I#{File.expand_path("../../lib", __dir__)}", "-e", script], &:read)
    assert_equal "Paceline::XML::ParseErrornil", out
  end

  def test_without_rexml_there_is_its_exception
    script = 'module Kernel; alias old require; def require(name) = name.start_with?("rexml") ? raise(LoadError, name) : old(name); end
              require "paceline/xml/reading"
              begin; Paceline::XML::Reading.parse("<a>"); rescue REXML::ParseException => e; print e.message, e.class.superclass.superclass; end'
    out = IO.popen([RbConfig.ruby, "-I#{File.expand_path("../../lib", __dir__)}", "-e", script], &:read)
    assert_equal "element \"a\" is not closed (line 1, column 1)RuntimeError", out
  end
end
