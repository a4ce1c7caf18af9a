# frozen_string_literal: true

require "helper"
require "xml/support/pair"

# Characters beside the gem builder's XChar: every character there is, every sequence of two bytes, and many longer ones.
class XMLCharactersTest < Paceline::Test
  STOCK = defined?(::Builder::XChar) && ::Builder::XChar
  OURS = Paceline::XML::Characters
  VECTORS = File.expand_path("../../../test/vectors/xml_escape.hex", __dir__)

  def setup
    skip "the gem builder is not installed" unless STOCK
  end

  # Builders of both, and what they write for one text and one value of an attribute.
  def written(klass, text, encoding = nil)
    xml = klass.new
    xml.instruct!(:xml, encoding: encoding) if encoding
    xml.a(text, "b" => text)
    xml.text!(text)
    [xml.target!, xml.target!.encoding]
  rescue EncodingError, ArgumentError, FrozenError => e
    [e.class, e.message]
  end

  def assert_same(text, *declared)
    assert_equal outcome { STOCK.encode(text) }, outcome { OURS.encode(text) }, text.inspect
    [nil, *declared].each do |encoding|
      assert_equal written(::Builder::XmlMarkup, text.dup, encoding), written(Paceline::XML::Builder, text.dup, encoding), [text, encoding].inspect
    end
  end

  def outcome
    text = yield
    [text, text.encoding, text.valid_encoding?]
  rescue EncodingError => e
    [e.class, e.message]
  end

  def test_every_character
    [*0..0xD7FF, *0xE000..0x10FFFF].each_slice(4096) { |codes| assert_same(codes.pack("U*")) }
  end

  # Alone, each of those that are written as something else: nothing about it depends on its neighbours.
  def test_every_character_below_the_third_hundred_alone_and_between_others
    [*0..0x2FF, *0xD7F0..0xD7FF, *0xE000..0xE00F, *0xFDD0..0xFDEF, *0xFFF0..0xFFFF, 0x10000, 0x1FFFE, 0x1FFFF, 0x10FFFE, 0x10FFFF].each do |code|
      character = [code].pack("U")
      assert_same(character)
      assert_same("a#{character}b")
      assert_same("#{"long " * 20}#{character}#{"\u00e9" * 9}#{character}")
    end
  end

  # Many texts by one builder of each.
  def assert_all_same(texts, what)
    assert_equal texts.map { |text| STOCK.encode(text) }, texts.map { |text| OURS.encode(text) }, what
    stock, ours = [::Builder::XmlMarkup, Paceline::XML::Builder].map do |klass|
      xml = klass.new
      texts.each { |text| xml.a(text, b: text) }
      xml.target!
    end
    assert stock == ours, what
  end

  def test_every_sequence_of_two_bytes
    (0..255).each do |first|
      sequences = (0..255).map { |second| [first, second].pack("C2") }
      [Encoding::UTF_8, Encoding::BINARY].each { |encoding| assert_all_same(sequences.map { |bytes| bytes.dup.force_encoding(encoding) }, first) }
    end
  end

  # The bytes at which validity changes, in every combination of three and, sampled, of four.
  EDGES = [0x00, 0x26, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBD, 0xBE, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1,
           0xF3, 0xF4, 0xF5, 0xFF].freeze

  def test_sequences_of_three_and_four_bytes
    random = Random.new(5)
    EDGES.each do |first|
      sequences = EDGES.product(EDGES).flat_map { |rest| [[first, *rest], [first, *rest, EDGES.sample(random: random)]] }
      assert_all_same(sequences.map { |bytes| bytes.pack("C*").force_encoding(Encoding::UTF_8) }, first)
    end
  end

  def test_texts_of_any_length_with_something_at_any_place
    ["&", "<", "\"", "\n", "\r", "\0", "\u0085", "\uFFFE", "\u00E9", "\xFF", "\xE2\x82"].each do |odd|
      (0..70).each do |length|
        text = "x" * length
        [text + odd, odd + text, text + odd + text].each { |whole| assert_same(whole) }
      end
    end
  end

  def test_every_encoding_of_ruby
    Encoding.list.each do |encoding|
      ["plain", "a & <b>\n\"", "\u00e9\u20ac", "\u65e5\u672c \u0085"].each do |text|
        encoded = begin
          text.encode(encoding)
        rescue EncodingError
          text.b.force_encoding(encoding)
        end
        assert_same(encoded)
        assert_same("\xC3\x28\xFF".dup.force_encoding(encoding))
        assert_same(text, encoding.name)
      end
    end
  end

  def test_binary_strings
    assert_same("caf\xC3\xA9".b)
    assert_same("caf\xE9 \x80".b)
    assert_same("plain & plain".b.freeze)
    frozen = "caf\xC3\xA9".b.freeze
    assert_raises(FrozenError) { STOCK.encode(frozen) }
    assert_raises(FrozenError) { OURS.encode(frozen) }
    ours = Paceline::XML::Builder.new
    assert_raises(FrozenError) { ours.text!(frozen) }
    assert_equal "", ours.target!
  end

  def test_what_is_given_stays_as_it_was
    text = +"caf\xC3\xA9 & \xFF"
    OURS.encode(text)
    Paceline::XML::Builder.new.a(text, b: text)
    assert_equal ["caf\xC3\xA9 & \xFF", Encoding::UTF_8], [text, text.encoding]
    binary = "caf\xC3\xA9".b
    Paceline::XML::Builder.new.a(binary, b: binary)
    assert_equal Encoding::BINARY, binary.encoding
  end

  def test_vectors
    lines = File.readlines(VECTORS, chomp: true).reject { |line| line.start_with?("#") }
    assert_operator lines.size, :>, 500
    assert_equal %w[attribute text], lines.map { |line| line[/\w+/] }.uniq.sort
    lines.each do |line|
      kind, given, expected = line.split(" ", -1)
      given, expected = [given, expected].map { |hex| hex == "-" ? +"" : [hex].pack("H*") }
      [::Builder::XmlMarkup, Paceline::XML::Builder].each do |klass|
        xml = klass.new
        kind == "text" ? xml.text!(given.force_encoding("UTF-8")) : xml.a(b: given.force_encoding("UTF-8"))
        assert_equal (kind == "text" ? expected : "<a b=\"".b + expected + "\"/>"), xml.target!.b, line
      end
    end
  end
end
