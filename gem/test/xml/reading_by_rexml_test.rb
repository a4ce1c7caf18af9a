# frozen_string_literal: true

require "helper"
require "open3"
require "json"

# Without the native part the backend reads by REXML: the same hashes, and mistakes of the one class that docs/xml.md names. In a process of its
# own, since the native part is there or not for good.
class ReadingByRexmlTest < Minitest::Test
  LIB = File.expand_path("../../lib", __dir__)
  SCRIPT = <<~'RUBY'
    require "json"
    require "stringio"
    require "timeout"
    require "active_support"
    require "active_support/core_ext/hash/conversions"
    ActiveSupport::XmlMini.backend = "Paceline"
    XmlMini, Reading = ActiveSupport::XmlMini, Paceline::XML::Reading
    abort "the native part is there" if Reading.native?
    told = lambda do |&read|
      read.call
    rescue Paceline::XML::ParseError => e
      [e.class.name, e.is_a?(REXML::ParseException), e.message]
    rescue StandardError => e
      e.class.name
    end
    puts JSON.generate(eval(ARGV[0]))
  RUBY

  # What CODE says, as JSON.
  def without_native(code)
    out, error, status = Open3.capture3({ "PACELINE_NATIVE" => "0" }, RbConfig.ruby, "-W0", "-I#{LIB}", "-e", SCRIPT, code)
    assert status.success?, error
    JSON.parse(out)
  end

  def test_hashes_are_those_of_rexml
    ours, theirs = without_native(<<~'RUBY')
      documents = ["<a/>", "<a b='1'>x<c/>y</a>", "<a type='array'><b>1</b></a>", "<?xml version='1.0' encoding='ISO-8859-1'?><a>\xE4</a>".b]
      %w[Paceline REXML].map do |name|
        XmlMini.with_backend(name) { documents.flat_map { |one| [XmlMini.parse(one), XmlMini.parse(StringIO.new(one)), Hash.from_xml(one)] } }
      end
    RUBY
    assert_equal theirs, ours
    assert_equal({ "a" => { "__content__" => "\u00E4" } }, ours[-3])
    assert_equal [{}] * 3, without_native('[nil, "", StringIO.new("")].map { |nothing| XmlMini.parse(nothing) }')
  end

  def test_mistakes_are_parse_errors
    told = without_native(<<~'RUBY')
      laughs = (1..8).map { |level| "<!ENTITY e#{level} '#{"&e#{level - 1};" * 10}'>" }.join
      documents = ["<a>", "<a></b>", "<!DOCTYPE a [<!ENTITY e0 'ha'>#{laughs}]><a>&e8;</a>", "<a>" * 101 + "</a>" * 101, "<!DOCTYPE a [<!ENTITY e '&e;'>]><a>&e;</a>", "<?xml version='1.0' encoding='bogus'?><a/>"]
      documents.map { |one| told.call { Hash.from_xml(one) } }
    RUBY
    told.each { |error, is_rexmls, message| assert_equal ["Paceline::XML::ParseError", true, 1], [error, is_rexmls, message.lines.size], told.inspect }
  end

  # From a source without an end no more is taken than may be.
  def test_what_is_too_large_is_not_read
    told, taken = without_native(<<~'RUBY')
      Reading.limits.bytes = 1000
      taken = 0
      endless = Object.new
      endless.define_singleton_method(:read) { |length| "x" * [length, 300].min.tap { |count| taken += count } }
      [told.call { XmlMini.parse(endless) }, taken]
    RUBY
    assert_equal ["Paceline::XML::ParseError", true, "the document is larger than 1000 bytes"], told
    assert_equal 1001, taken
  end

  def test_a_time_out_is_no_mistake_of_the_document
    code = 'def (ActiveSupport::XmlMini_REXML).parse(_) = raise(Timeout::Error); told.call { XmlMini.parse("<a/>") }'
    assert_equal "Timeout::Error", without_native("require 'active_support/xml_mini/rexml'; #{code}")
  end
end
