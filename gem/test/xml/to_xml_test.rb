# frozen_string_literal: true

require "helper"
require "open3"
require "xml/support/pair"
begin
  require "active_support"
  require "active_support/core_ext/hash/conversions"
  require "active_support/core_ext/array/conversions"
  require "active_support/core_ext/object/to_query"
  require "active_support/time"
rescue LoadError
  # Skipped below.
end

# ActiveSupport's to_xml: with a builder that is handed to it, and with ours in Builder's place.
class XMLToXMLTest < Paceline::Test
  Thing = Struct.new(:name, :parts) do
    # As apps write it: with the builder that comes in the options, or one of its own.
    def to_xml(options = {})
      xml = options[:builder] ||= ::Builder::XmlMarkup.new(indent: options[:indent] || 2)
      xml.instruct! unless options[:skip_instruct]
      xml.tag!(options[:root] || "thing", name: name) do
        xml.parts { parts.each { |part| part.respond_to?(:to_xml) ? part.to_xml(options.merge(root: "part", skip_instruct: true)) : xml.part(part) } }
        yield xml if block_given?
      end
    end
  end

  VALUES = {
    strings: { "name" => "R & D <x>", plain: "\u00e9\n\"", "under_scored key" => "caf\xE9", empty: "", nothing: nil, symbol: :sym },
    numbers: { one: 1, big: 2**70, float: 1.5, negative: -3, "yes" => true, no: false },
    times: { date: Date.new(2026, 11, 22), time: Time.utc(2026, 11, 22, 3, 4, 5), zoned: (ActiveSupport::TimeZone["UTC"].at(0) if defined?(ActiveSupport::TimeZone)) }.compact,
    nested: { a: { b: { c: [1, 2], d: {} }, e: [] }, f: [{ g: 1 }, { g: 2 }], "h" => [nil, { i: "x" }] },
    binary: { bytes: "\x00\x01\xFF".b, range: 1..2 },
    things: { thing: Thing.new("n\"", [1, Thing.new("inner", []), "<"]), list: [Thing.new("x", ["y"])] },
  }.freeze

  def setup
    skip "ActiveSupport or the gem builder is not installed" unless {}.respond_to?(:to_xml) && XMLPrograms::Pair.stock
  end

  def assert_same(value, **options)
    stock, ours = [::Builder::XmlMarkup, Paceline::XML::Builder].map do |klass|
      given = klass.new(indent: options.fetch(:indent, 2))
      [value.to_xml(**options, builder: given), given.target!]
    end
    assert_equal stock, ours
    assert_equal value.to_xml(**options), ours.last unless options[:skip_instruct] || value.is_a?(Thing)
  end

  OPTIONS = [{}, { indent: 0 }, { root: "R" }, { dasherize: false }, { camelize: true }, { skip_types: true }, { skip_instruct: true }, { camelize: :lower, indent: 4 }].freeze

  def test_hashes
    VALUES.each_value { |hash| OPTIONS.each { |options| assert_same(hash, **options) } }
    assert_same({})
    assert_same(VALUES.transform_keys(&:to_s))
  end

  def test_arrays_of_hashes
    OPTIONS.each { |options| assert_same(VALUES.values, **options) }
    assert_same([{ a: 1 }, { a: nil }], root: "rows", children: "row")
    assert_same([])
  end

  def test_objects_with_a_to_xml_of_their_own
    [Thing.new("a", [1, 2]), Thing.new("<", [Thing.new("b", [])])].each do |thing|
      OPTIONS.each { |options| assert_same(thing, **options) }
    end
    stock, ours = [::Builder::XmlMarkup, Paceline::XML::Builder].map { |klass| [Thing.new("a", [])].to_xml(builder: klass.new) { |xml| xml.more("&") } }
    assert_equal stock, ours
  end

  def test_what_raises_half_way
    raising = Object.new
    def raising.to_xml(options) = options[:builder].half { raise IOError, "way" }
    written = [::Builder::XmlMarkup, Paceline::XML::Builder].map do |klass|
      xml = klass.new(indent: 2)
      assert_equal "way", assert_raises(IOError) { { a: 1, list: [raising] }.to_xml(builder: xml) }.message
      xml.target!
    end
    assert_equal written.first, written.last
    assert_includes written.last, "</half>"
  end

  def test_ours_in_builders_place
    code = <<~'RUBY'
      require "active_support"
      require "active_support/core_ext/hash/conversions"
      require "active_support/core_ext/array/conversions"
      if ARGV[0] == "ours"
        require "paceline/xml"
        Paceline::XML.replace_builder!
      end
      value = { name: "R & D é", "list" => [{ a: 1 }, { a: nil, b: "\n" }], deep: { er: { est: 1.5 } } }
      print value.to_xml, value["list"].to_xml(root: "rows", skip_types: true, indent: 0), Builder::XmlMarkup == ($paceline = defined?(Paceline::XML::Builder) && Paceline::XML::Builder)
    RUBY
    stock, ours = %w[stock ours].map do |which|
      out, err, status = Open3.capture3(RbConfig.ruby, "-W0", "-I", File.expand_path("../../lib", __dir__), "-e", "# encoding: utf-8\n#{code}", which)
      assert_predicate status, :success?, err
      out
    end
    assert ours.end_with?("true") && stock.end_with?("false")
    assert_equal stock.delete_suffix("false"), ours.delete_suffix("true")
    assert_includes ours, "R &amp; D"
  end
end
