# frozen_string_literal: true

require_relative "support/reading_helper"

# Hash.from_xml with the backend beside Rails' own conversion of REXML's hashes: the same objects, the same exceptions.
class ReadingConversionTest < Paceline::Test
  include ReadingHelper

  # What comes of it, as text that tells everything about it.
  def told(backend, document, *disallowed)
    with_backend(backend) { tell(Hash.from_xml(document.dup, *disallowed)) }
  rescue StandardError => e
    e.is_a?(REXML::ParseException) ? "REXML::ParseException" : "#{e.class}: #{e.message.gsub(/0x\h+/, "")}"
  end

  def tell(value)
    case value
    when Hash then "{#{value.map { |key, inner| "#{key.inspect}=>#{tell(inner)}" }.join(", ")}}"
    when Array then "[#{value.map { |inner| tell(inner) }.join(", ")}]"
    when StringIO then "file #{value.original_filename.inspect} #{value.content_type.inspect} #{value.string.inspect}"
    when String then "#{value.inspect} #{value.encoding}#{" frozen" if value.frozen?}"
    else "#{value.class} #{value.inspect}"
    end
  end

  def assert_like_rails(document, *disallowed)
    assert_equal told("REXML", document, *disallowed), told("Paceline", document, *disallowed), document.inspect
  end

  def natively?(document)
    converter = ActiveSupport::XMLConverter.new(document)
    !converter.instance_variable_get(:@reading).nil?
  end

  CASES = [
    "<a/>", "<a> </a>", "<a>x</a>", "<a b='1'>x</a>", "<a b='1'> </a>", "<a-b c-d='1'><e-f/></a-b>", "<a><b/><b>1</b></a>",
    "<a type='array'/>", "<a type='array'><b/></a>", "<a type='array'> <b>1</b> <b/> <c>2</c></a>", "<a type='array'>x</a>",
    "<a type='array' b='1'><b>2</b></a>", "<a type='array'><![CDATA[]]></a>", "<a type='array'><b/><![CDATA[]]></a>",
    "<a type='integer'>1</a>", "<a type='integer'/>", "<a type='integer' nil='true'/>", "<a type='string'/>", "<a type='string' nil='true'/>",
    "<a type='decimal'>1.50</a>", "<a type='float'>x</a>", "<a type='boolean'> 1 </a>", "<a type='date'>nonsense</a>", "<a type='date'>2024-02-29</a>",
    "<a type='dateTime'>2024-02-29T12:00:00+02:00</a>", "<a type='binary' encoding='base64'>YWJj</a>", "<a type='binary'>YWJj</a>",
    "<a type='file' name='x' content_type='y'>YWJj</a>", "<a type='file'/>", "<a><file type='file'>YWJj</file><b/></a>", "<file type='file'>YWJj</file>",
    "<a type='base64Binary'>YWJj</a>", "<a type='yaml'>--- 1</a>", "<a type='symbol'>x</a>", "<a type='symbol'/>", "<a><b type='yaml'/><c type='date'>?</c></a>",
    "<a type='unknown'>x</a>", "<a type=''>x</a>", "<a type='unknown'/>", "<a type='unknown'><b>1</b></a>", "<a><type>x</type></a>", "<type/>", "<nil/>",
    "<a type='x'><type>y</type></a>", "<a nil='true'/>", "<a nil='true'><b/></a>", "<a nil='true'>x</a>", "<a nil='false'/>", "<a><nil>true</nil></a>",
    "<a x-y='1' x_y='2'/>", "<a><x-y>1</x-y><x_y>2</x_y></a>", "<a __content__='1'/>", "<a><__content__>1</__content__></a>", "<__content__>x</__content__>",
    "<a --content--='1'/>", "<a b='1'>&#32;</a>", "<a>\u00A0</a>", "<a b='1'>\u00A0</a>", "<a b='1'><c/>\u3000x</a>", "", "<a", "<a/><b/>"
  ].freeze

  def test_cases
    CASES.each do |document|
      assert_like_rails(document)
      assert_like_rails(document, [])
      assert_like_rails(document, %w[integer unknown])
    end
  end

  def test_random_documents
    SEEDS.times do |seed|
      document = RandomDocuments.new(seed, typed: true).document
      assert_like_rails(document, *[[], [[]], [%w[integer array]]][seed % 3])
      damaged = RandomDocuments.new(seed, typed: true).damaged
      # What REXML refuses for reasons of its own tells nothing.
      next if [told("REXML", damaged), told("Paceline", damaged)].include?("REXML::ParseException")

      assert_like_rails(damaged)
    end
  end

  def test_most_is_converted_natively
    skip "there is no native part" unless Reading.native?
    assert natively?("<a-b><c type='integer'>1</c></a-b>")
    refute natively?("<a x-y='' x_y=''/>")
    with_backend("REXML") { refute natively?("<a/>") }
  end

  def test_parsers_of_the_app_are_asked
    parsing = XmlMini::PARSING
    before = parsing.dup
    parsing["integer"] = ->(text) { "#{text}!" }
    parsing["mine"] = Class.new { def self.arity = 2; def self.call(text, entity) = [text, entity] }
    parsing["odd"] = ->(text, entity = nil) { [text, entity.class] }
    ["<a type='integer'>1</a>", "<a type='mine' x-y='1'>1<b>2</b></a>", "<a type='odd'>1</a>"].each { |document| assert_like_rails(document) }
    assert_equal({ "a" => "1!" }, Hash.from_xml("<a type='integer'>1</a>"))
    parsing["integer"] = ->(_) { raise IOError, "stop" }
    assert_raises(IOError) { Hash.from_xml("<a><b type='integer'>1</b></a>") }
    parsing["integer"] = ->(_) { throw :out, 7 }
    assert_equal 7, (catch(:out) { Hash.from_xml("<a><b type='integer'>1</b></a>") })
  ensure
    parsing.replace(before)
  end

  def test_converted_again_and_from_io
    converter = ActiveSupport::XMLConverter.new(StringIO.new("<a type='array'><b>1</b></a>"))
    assert_equal({ "a" => ["1"] }, converter.to_h)
    assert_equal({ "a" => ["1"] }, converter.to_h)
    assert_equal({ "x_y" => nil }, Hash.from_xml(StringIO.new("<x-y/>")))
    assert_nil Hash.from_xml(nil)
    assert_equal({ "a" => { "x_y" => "2" } }, Hash.from_xml(StringIO.new("<a x-y='1' x_y='2'/>")))
  end

  # Each in a process of its own, since it lasts.
  { "a method that is redefined" => "class ActiveSupport::XMLConverter; private def become_array?(value) = false; end",
    "a module in between" => "ActiveSupport::XMLConverter.prepend(Module.new { def to_h = super.merge(1 => 2) })",
    "a backend that is wrapped" => "ActiveSupport::XmlMini_Paceline.singleton_class.prepend(Module.new { def parse(data) = super.merge('b' => 'c') })",
    "a parse of another kind" => "def (ActiveSupport::XmlMini).parse(data) = { 'a' => data }" }.each do |what, change|
    define_method("test_#{what.tr(" ", "_")}_leaves_all_to_rails") do
      script = "require 'active_support'; require 'active_support/core_ext'; ActiveSupport::XmlMini.backend = ARGV[0]; #{change}
                p Hash.from_xml('<a type=\"array\"><b>1</b></a>')"
      script.sub!("ActiveSupport::XmlMini_Paceline", "ActiveSupport.const_get('XmlMini_' + ARGV[0])")
      told = %w[REXML Paceline].map do |backend|
        IO.popen([RbConfig.ruby, "-I#{File.expand_path("../../lib", __dir__)}", "-e", script, backend], &:read)
      end
      assert_equal told[0], told[1]
      refute_equal "", told[1]
    end
  end

  BODY = "<?xml version=\"1.0\"?><post><title>x</title><published-at type=\"date\">2024-02-29</published-at></post>"

  # What actionpack-xml_parser does with a request's body, here with an IO.
  def test_bodies_of_requests
    params = Hash.from_xml(StringIO.new(BODY.b)) || {}
    assert_equal({ "post" => { "title" => "x", "published_at" => Date.new(2024, 2, 29) } }, params)
    assert_raises(REXML::ParseException) { Hash.from_xml(BODY.b.chop) }
  end

  def test_requests_with_actionpack_xml_parser
    begin
      require "action_pack/xml_parser"
    rescue LoadError
      skip "actionpack-xml_parser is not here"
    end
    before = ActionDispatch::Request.parameter_parsers
    ActionPack::XmlParser.register
    request = lambda do |body|
      ActionDispatch::Request.new("REQUEST_METHOD" => "POST", "CONTENT_TYPE" => "application/xml", "CONTENT_LENGTH" => body.bytesize.to_s,
                                  "rack.input" => StringIO.new(body.b), "action_dispatch.logger" => nil).request_parameters
    end
    assert_equal({ "post" => { "title" => "x", "published_at" => Date.new(2024, 2, 29) } }, request.call(BODY).to_h)
    assert_raises(ActionDispatch::Http::Parameters::ParseError) { request.call(BODY.chop) }
    assert_raises(ActionDispatch::Http::Parameters::ParseError) { request.call("<!DOCTYPE a [<!ENTITY e '&e;'>]><a>&e;</a>") }
  ensure
    ActionDispatch::Request.parameter_parsers = before if before
  end
end
