# frozen_string_literal: true

require "helper"
require "xml/support/pair"

# What drop-ins for Builder::XmlMarkup get wrong, one by one. Each runs on the gem builder as well, if it is there: the same must hold for it.
class XMLPointsTest < Paceline::Test
  # Runs the test for each builder.
  def each_builder
    [[Paceline::XML::Builder, Paceline::XML::IllegalBlockError], *([[::Builder::XmlMarkup, ::Builder::IllegalBlockError]] if defined?(::Builder::XmlMarkup))]
      .each { |klass, illegal| yield klass, illegal }
  end

  # What a block writes with a new builder.
  def assert_writes(expected, **options)
    each_builder do |klass|
      xml = klass.new(options)
      yield xml
      assert_equal expected, xml.target!, klass.name
    end
  end

  def assert_refuses(error, written = "")
    each_builder do |klass, illegal|
      xml = klass.new
      assert_raises(error == :illegal ? illegal : error, klass.name) { yield xml }
      assert_equal written, xml.target!, klass.name
    end
  end

  def test_a_target_is_appended_to_in_place
    each_builder do |klass|
      target = +"before "
      xml = klass.new(target: target)
      assert_same target, xml.a("text")
      assert_same target, xml.target!
      assert_equal "before <a>text</a>", target
    end
  end

  def test_the_target_is_a_live_string
    each_builder do |klass|
      xml = klass.new
      target = xml.target!
      refute_predicate target, :frozen?
      xml.a
      assert_equal "<a/>", target
      target << "appended"
      xml.b
      assert_equal "<a/>appended<b/>", xml.target!
      target.clear
      xml.c
      assert_equal "<c/>", target
      target.replace("r" * 1000)
      xml.d { target << "inside" }
      assert_equal "#{"r" * 1000}<d>inside</d>", target
      assert_equal Encoding::UTF_8, target.encoding
    end
  end

  def test_a_copy_of_the_target_does_not_change_with_it
    each_builder do |klass|
      xml = klass.new
      xml.a("x" * 100)
      copy = xml.target!.dup
      part = xml.target!.byteslice(0, 50)
      frozen = -xml.target!
      xml.b("y" * 100)
      assert_equal "<a>#{"x" * 100}</a>", copy
      assert_equal "<a>#{"x" * 47}", part
      assert_equal copy, frozen
    end
  end

  def test_a_frozen_target_is_not_written_to
    each_builder do |klass|
      xml = klass.new(target: "frozen".dup.freeze)
      assert_raises(FrozenError) { xml.a }
      assert_raises(FrozenError) { xml << "b" }
      assert_raises(FrozenError) { xml.text!("b") }
      assert_equal "frozen", xml.target!
    end
  end

  def test_any_object_with_append_is_a_target
    each_builder do |klass|
      pieces = []
      xml = klass.new(target: pieces)
      assert_same pieces, xml.a("t", b: 1)
      assert_equal ["<a", " b=\"1\"", ">", "t", "</a>"], pieces
      io = StringIO.new
      klass.new(target: io).a { |x| x.b("\u00e9") }
      assert_equal "<a><b>\u00e9</b></a>", io.string
      inner = klass.new
      klass.new(target: inner).a("<")
      assert_equal "<a>&lt;</a>", inner.target!
      assert_raises(NoMethodError) { klass.new(target: Object.new).a }
    end
  end

  def test_a_pipe_is_a_target
    each_builder do |klass|
      reader, writer = IO.pipe
      xml = klass.new(target: writer, indent: 2)
      xml.feed { xml.title("one & two") }
      writer.close
      assert_equal "<feed>\n  <title>one &amp; two</title>\n</feed>\n", reader.read
      assert_raises(IOError) { xml.more }
    ensure
      reader.close
    end
  end

  def test_strings_of_other_encodings_as_targets
    [Encoding::BINARY, Encoding::US_ASCII, Encoding::ISO_8859_1].each do |encoding|
      each_builder do |klass|
        target = String.new(encoding: encoding)
        klass.new(target: target).a("\u00e9")
        assert_equal ["<a>\u00e9</a>", Encoding::UTF_8], [target, target.encoding]
      end
    end
    each_builder do |klass|
      target = "caf\xE9 ".dup.force_encoding("ISO-8859-1")
      xml = klass.new(target: target)
      xml.a("b")
      assert_raises(Encoding::CompatibilityError) { xml.a("\u00e9") }
      assert_equal "caf\xE9 <a>b</a><a>".b, target.b
    end
  end

  def test_arguments_in_any_order
    assert_writes('<a b="1" c="2">one2</a>') { |xml| xml.a("one", { b: 1 }, 2, { c: 2 }) }
    assert_writes('<a b="1" c="2">one2</a>') { |xml| xml.a({ b: 1 }, "one", { "c" => 2 }, 2) }
    assert_writes('<a b="2" c="1"/>') { |xml| xml.a({ b: 1, c: 1 }, { b: 2 }) }
    assert_writes('<a b="1" b="2"/>') { |xml| xml.a({ b: 1 }, { "b" => 2 }) }
    assert_writes('<a b="1">x1.5true</a>') { |xml| xml.a("x", 1.5, true, b: 1) }
  end

  def test_only_a_first_symbol_is_a_namespace
    assert_writes("<soap:Envelope/>") { |xml| xml.soap(:Envelope) }
    assert_writes('<soap:Envelope a="1"><b/></soap:Envelope>') { |xml| xml.soap(:Envelope, a: 1) { xml.b } }
    assert_writes("<a:b>c</a:b>") { |xml| xml.a(:b, :c) }
    assert_writes("<a>xb</a>") { |xml| xml.a("x", :b) }
    assert_writes("<a:b>text</a:b>") { |xml| xml.tag!("a", :b, "text") }
    assert_writes("<a:b:c/>") { |xml| xml.tag!("a:b", :c) }
  end

  def test_hashes_that_are_given_are_left_alone
    each_builder do |klass|
      given = { b: 1 }.freeze
      xml = klass.new
      xml.a(given, { c: 2 }, nil)
      xml.a(given)
      assert_equal({ b: 1 }, given)
      assert_equal '<a b="1" c="2"/><a b="1"/>', xml.target!
    end
  end

  def test_nil_is_no_text
    assert_writes("<a/>") { |xml| xml.a(nil) }
    assert_writes("<a></a>") { |xml| xml.a("") }
    assert_writes("<a>x</a>") { |xml| xml.a(nil, "x", nil) }
    assert_writes("<a><b/></a>") { |xml| xml.a(nil) { xml.b } }
    assert_writes('<a b=""/>') { |xml| xml.a(b: nil) }
    assert_writes("<a>false</a>") { |xml| xml.a(false) }
  end

  def test_nil_can_be_told_by_an_attribute
    assert_writes('<a nil="true"/><b c="1" nil="true"/><d nil="true">x</d><e/>', explicit_nil_handling: true) do |xml|
      xml.a(nil)
      xml.b({ c: 1 }, nil)
      xml.d(nil, "x")
      xml.e
    end
  end

  def test_text_and_a_block_do_not_mix
    assert_refuses(ArgumentError) { |xml| xml.a("text") { flunk } }
    assert_refuses(ArgumentError) { |xml| xml.a("", b: 1) { flunk } }
    each_builder do |klass|
      error = assert_raises(ArgumentError) { klass.new.a("text") { flunk } }
      assert_equal "XmlMarkup cannot mix a text argument with a block", error.message
    end
  end

  def test_a_builder_is_not_nil
    each_builder do |klass|
      xml = klass.new
      assert_equal false, xml.nil?
      assert_equal "", xml.target!
    end
  end

  # Every method of Object is a tag, for none is one of BasicObject.
  def test_names_that_are_methods_elsewhere_are_tags
    names = %i[p id class send to_s inspect hash method methods object_id freeze frozen? dup clone tap then display puts print format test select open
               system exit sleep rand loop lambda proc raise catch throw extend instance_of? kind_of? is_a? respond_to? public_send instance_variable_get
               singleton_class define_singleton_method =~ === <=> enum_for itself yield_self caller binding eval exec fork gets require load trap warn
               to_xml to_json as_json blank? present? try presence html_safe in? with_options to_param to_query acts_like? duplicable? deep_dup]
    names.each do |name|
      assert_writes("<#{name} a=\"1\">x</#{name}><#{name}/>") do |xml|
        xml.__send__(name, "x", a: 1)
        xml.__send__(name)
      end
    end
    assert_writes("<p>x</p><id/><class/><test>y</test>") do |xml|
      xml.p("x")
      xml.id
      xml.class
      xml.test("y")
    end
  end

  def test_what_basic_object_has_stays_what_it_is
    each_builder do |klass|
      xml = klass.new
      assert_equal true, xml == xml # rubocop:disable Lint/BinaryOperatorWithIdenticalOperands
      assert_equal false, xml != xml # rubocop:disable Lint/BinaryOperatorWithIdenticalOperands
      assert_equal false, !xml
      assert_equal true, xml.equal?(xml)
      assert_kind_of Integer, xml.__id__
      assert_same xml.target!, xml.__send__(:a)
      assert_equal 3, xml.instance_eval { 3 }
      assert_equal [4, "<a/>"], xml.instance_exec(4) { |four| [four, target!] }
      assert_equal "<a/>", xml.target!
    end
  end

  def test_every_kind_of_name
    { a!: "a!", a?: "a?", "a=": "a=", "größe": "größe", "日本": "日本", "a b": "a b", "xml:lang": "xml:lang", "a\0b": "a\0b", "1": "1", A: "A", _x: "_x",
      "": "", "<&>": "<&>", "[]": "[]", "+": "+" }.each do |name, written|
      assert_writes("<#{written}/><#{written}>t</#{written}><#{written}><b/></#{written}>") do |xml|
        xml.__send__(name)
        xml.tag!(name.to_s, "t")
        xml.tag!(name) { xml.b }
      end
    end
  end

  def test_a_name_that_changes_under_way
    each_builder do |klass|
      name = +"name"
      xml = klass.new
      xml.tag!(name) { name.replace("another, longer than any that fits into the object itself") }
      assert_equal "<name></name>", xml.target!
    end
  end

  def test_the_end_tag_is_written_even_if_the_block_raises
    assert_refuses(RuntimeError, "<a><b><c/></b></a>") { |xml| xml.a { xml.b { xml.c and raise "out" } } }
    assert_refuses(Interrupt, "<a></a>") { |xml| xml.a { raise Interrupt } }
    assert_writes("<a><b></b></a><d/>") do |xml|
      xml.a { xml.b { break } }
      xml.d
    end
    assert_writes("<a><b></b></a><d/>") do |xml|
      catch(:out) { xml.a { xml.b { throw :out } } }
      xml.d
    end
    assert_writes("<a>\n  <b>\n  </b>\n</a>\n<d/>\n", indent: 2) do |xml|
      begin
        xml.a { xml.b { raise "out" } }
      rescue RuntimeError
        xml.d
      end
    end
    each_builder { |klass| assert_equal 7, klass.new.a { break 7 } }
  end

  def test_a_block_gets_the_builder
    each_builder do |klass|
      xml = klass.new
      xml.a { |given| assert_same xml.__id__, given.__id__ }
      xml.b(&:c)
      xml.d(&->(given) { given.e })
      receiver = Object.new
      def receiver.write(given) = given.f("m")
      xml.g(&receiver.method(:write))
      assert_equal "<a></a><b><c/></b><d><e/></d><g><f>m</f></g>", xml.target!
    end
  end

  # Ruby asks what is yielded to two parameters for an Array, by a method that is a tag like every other.
  def test_two_parameters_ask_for_an_array
    assert_refuses(TypeError, "<a><to_ary/></a>") { |xml| xml.a { |one, two| [one, two] } }
  end

  def test_line_ends_in_attributes
    assert_writes("<a b=\"1&#10;2&#13;3\t4\">1\n2\r3</a>") { |xml| xml.a("1\n2\r3", b: "1\n2\r3\t4") }
  end

  def test_quotes
    assert_writes(%(<a b="it's &quot;so&quot;">it's "so"</a>)) { |xml| xml.a(%(it's "so"), b: %(it's "so")) }
    # Even between single quotes only the double one is written as a reference.
    assert_writes(%(<a b='it's &quot;so&quot;'/>), quote: :single) { |xml| xml.a(b: %(it's "so")) }
    assert_writes(%(<a b="1"/>), quote: "single") { |xml| xml.a(b: 1) }
  end

  def test_symbols_as_values_are_written_as_they_are
    assert_writes(%(<a b="&nbsp;<">&amp;nbsp;</a>)) { |xml| xml.a("&nbsp;", b: :"&nbsp;<") }
    assert_writes(%(<a b="\u00e9\n"/>)) { |xml| xml.a(b: :"\u00e9\n") }
  end

  def test_control_characters_of_windows
    assert_writes("<a b=\"\u20AC\u2019\u0178\">\u20AC\u2019\u0178</a>") { |xml| xml.a("\u0080\u0092\u009F", b: "\u0080\u0092\u009F") }
    # Five mean nothing there.
    assert_writes("<a>\u0081\u008D\u008F\u0090\u009D</a>") { |xml| xml.a("\u0081\u008D\u008F\u0090\u009D") }
  end

  def test_characters_outside_xml
    assert_writes("<a b=\"\uFFFD\uFFFD\">\uFFFD\uFFFD\uFFFD \u007F</a>") { |xml| xml.a("\0\u001F\uFFFE \u007F", b: "\u000B\uFFFF") }
  end

  def test_invalid_utf8_is_read_as_latin1
    assert_writes("<a>caf\u00e9</a>") { |xml| xml.a("caf\xE9") }
    assert_writes("<a>\u20AC \u00C3\u00A9\u00FF</a>") { |xml| xml.a("\x80 \u00e9\xFF") }
    assert_writes("<a b=\"\u00ED\u00A0\u20AC\"/>") { |xml| xml.a(b: "\xED\xA0\x80") }
    assert_writes("caf\u00e9") { |xml| xml.text!("caf\xE9") }
    assert_writes("caf\u00e9 caf\u00e9") { |xml| xml.text!("caf\xC3\xA9 ".b) and xml.text!("caf\xE9".b) }
    each_builder { |klass| assert_predicate klass.new.a("caf\xE9"), :valid_encoding? }
  end

  def test_text_of_other_encodings
    ["ISO-8859-1", "Windows-1252", "UTF-16LE", "UTF-32BE"].each do |name|
      assert_writes("<a b=\"\u00e9&amp;\">\u00e9&amp;</a>") { |xml| xml.a("\u00e9&".encode(name), b: "\u00e9&".encode(name)) }
    end
    assert_writes("<a>\u65e5</a>") { |xml| xml.a("\u65e5".encode("Shift_JIS")) }
    assert_refuses(Encoding::UndefinedConversionError, "<a>") { |xml| xml.a("\xFF".dup.force_encoding("Windows-1253")) }
  end

  def test_text_is_encoded_after_a_declaration
    each_builder do |klass|
      xml = klass.new
      xml.instruct!(:xml, encoding: "ISO-8859-1")
      xml.a("\u00e9", b: "\u00e9")
      # What the encoding lacks makes references of the whole text.
      xml.a("\u00e9 \u20AC")
      assert_equal "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a b=\"\xE9\">\xE9</a><a>&#233; &#8364;</a>".b, xml.target!.b
      assert_equal Encoding::ISO_8859_1, xml.target!.encoding
    end
  end

  def test_encodings_that_markup_cannot_be_mixed_with
    assert_refuses(Encoding::CompatibilityError, "<?xml") { |xml| xml.instruct!(:xml, encoding: "UTF-16LE") }
  end

  def test_encodings_that_do_not_exist_are_written_as_references
    %w[no-such UTF-7 ISO-2022-JP].each do |name|
      assert_writes("<?xml version=\"1.0\" encoding=\"#{name}\"?><a b=\"&#8364;&#65533;\">&#233;&#65533;&amp;</a>") do |xml|
        xml.instruct!(:xml, encoding: name)
        xml.a("\u00e9\0&", b: "\u20AC\u0001")
      end
    end
  end

  def test_ascii
    assert_writes("<?xml version=\"1.0\" encoding=\"US-ASCII\"?><a>&#233; &#65533;x&#128512;</a>") do |xml|
      xml.instruct!(:xml, encoding: "US-ASCII")
      xml.a("\u00e9 \0x\u{1F600}")
    end
  end

  def test_instructions
    assert_writes('<?xml version="1.0" encoding="UTF-8"?>') { |xml| xml.instruct! }
    assert_writes('<?xml version="1.1" encoding="utf-8" standalone="yes" a="1"?>') { |xml| xml.instruct!(:xml, a: 1, standalone: "yes", version: "1.1", encoding: "utf-8") }
    assert_writes('<?style href="a.css" type="x"?>') { |xml| xml.instruct!(:style, href: "a.css", type: "x") }
    assert_writes("<?php?>") { |xml| xml.instruct!(:php) }
    assert_writes("<?php?>") { |xml| xml.instruct!("php") }
    assert_writes('<?a version="2" b="1"?>') { |xml| xml.instruct!(:a, b: 1, version: 2, encoding: nil) }
    assert_refuses(NoMethodError) { |xml| xml.instruct!(:xml, encoding: nil) }
  end

  def test_comments_cdata_and_declarations
    assert_writes("<!-- a < b -- c -->") { |xml| xml.comment!("a < b -- c") }
    assert_writes("<!--  -->") { |xml| xml.comment!(nil) }
    assert_writes("<![CDATA[a < b ]]]]><![CDATA[> c]]>") { |xml| xml.cdata!("a < b ]]> c") }
    assert_writes("<t><![CDATA[a]]]]><![CDATA[>]]></t>") { |xml| xml.cdata_value!(:t, "a]]>") }
    assert_writes('<!DOCTYPE html PUBLIC "a" "b">') { |xml| xml.declare!(:DOCTYPE, :html, :PUBLIC, "a", "b", 3, nil) }
    assert_writes("<!DOCTYPE a [\n  <!ELEMENT b \"c\">\n]>\n", indent: 2) { |xml| xml.declare!(:DOCTYPE, :a) { xml.declare!(:ELEMENT, :b, "c") } }
  end

  def test_blocks_where_there_must_be_none
    assert_refuses(:illegal) { |xml| xml.comment!("a") { flunk } }
    assert_refuses(:illegal) { |xml| xml.cdata!("a") { flunk } }
    assert_refuses(:illegal) { |xml| xml.cdata_value!(:a, "a") { flunk } }
    assert_refuses(:illegal) { |xml| xml.instruct! { flunk } }
    assert_operator Paceline::XML::IllegalBlockError, :<, RuntimeError
  end

  def test_indentation
    expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<a>\n  <b>t</b>\n  <!-- c -->\n  <d>\n    <e/>\ntext  </d>\n</a>\n"
    assert_writes(expected, indent: 2) do |xml|
      xml.instruct!
      xml.a do
        xml.b("t")
        xml.comment!("c")
        xml.d do
          xml.e
          xml << "text"
        end
      end
    end
    assert_writes("      <a/>\n", indent: 2, margin: 3) { |xml| xml.a }
    assert_writes("<a/>", margin: 3) { |xml| xml.a }
  end

  # What is appended raw is not looked at; numbers are characters then, as for any String.
  def test_raw
    assert_writes("<a>&</a>A") { |xml| (xml << "<a>&</a>") and (xml << 65) }
    assert_refuses(TypeError) { |xml| xml << nil }
    each_builder { |klass| klass.new.instance_eval { self << "a" } }
  end

  def test_the_target_as_text_of_itself
    assert_writes("<b/><a>&lt;b/&gt;</a>") { |xml| xml.a(xml.b) }
    # By then the tag has begun.
    assert_writes("<b/><a c=\"&lt;b/&gt;&lt;a\"/>") { |xml| xml.a(c: xml.b) }
    assert_writes("<b/><b/>") { |xml| xml << xml.b }
    assert_writes("<b/><![CDATA[<b/>]]>") { |xml| xml.cdata!(xml.b) }
    assert_writes("<b/><!-- <b/><!--  -->") { |xml| xml.comment!(xml.b) }
  end

  # What app code does while it is asked for text. The text that came before is kept as it was.
  def test_app_code_that_runs_in_the_middle
    each_builder do |klass|
      xml = klass.new
      text = +"text"
      attributes = { a: 1 }
      odd = Object.new
      odd.define_singleton_method(:to_s) do
        text << " changed"
        attributes[:late] = 1
        xml.inner
        1000.times { xml.target! << "x" }
        "odd"
      end
      attributes[:b] = odd
      attributes[:c] = 2
      xml.e(text, attributes)
      assert_equal "<e a=\"1\"<inner/>#{"x" * 1000} b=\"odd\" c=\"2\">text</e>", xml.target!
    end
  end

  def test_text_that_is_no_string
    odd = Object.new
    def odd.to_s = 65
    # `<<` makes a character of it.
    assert_writes("<a>A</a>") { |xml| xml.a(odd) }
    assert_refuses(NoMethodError, "<a") { |xml| xml.a(b: odd) }
    raising = Object.new
    def raising.to_s = raise("no text")
    assert_refuses(RuntimeError) { |xml| xml.a("x", raising) }
    assert_refuses(RuntimeError, "<a b=\"1\"") { |xml| xml.a(b: 1, c: raising, d: 2) }
    assert_refuses(NoMethodError) { |xml| xml.text!(5) }
    assert_refuses(NoMethodError) { |xml| xml.tag!(5) }
  end

  def test_more_names_than_anybody_has
    assert_writes((1..3000).map { |n| "<n#{n}/><n#{n}>#{n}</n#{n}>" }.join) do |xml|
      3000.times do |n|
        xml.__send__(:"n#{n + 1}")
        xml.__send__(:"n#{n + 1}", n + 1)
      end
    end
    assert_operator Paceline::XML::Builder.instance_methods.size, :<, 2000
  end

  def test_methods_of_tags_can_be_switched_off
    bases = [Paceline::XML::Base, *([::Builder::XmlBase] if defined?(::Builder::XmlBase))]
    assert_equal [true], bases.map(&:cache_method_calls).uniq
    bases.each { |base| base.cache_method_calls = false }
    assert_writes("<unheard_of/><unheard_of/>") { |xml| 2.times { xml.unheard_of } }
    refute Paceline::XML::Builder.method_defined?(:unheard_of)
  ensure
    bases.each { |base| base.cache_method_calls = true }
  end

  def test_options_of_any_hash
    each_builder do |klass|
      defaults = Hash.new { |_, key| key == :indent ? 2 : nil }
      assert_equal "<a>\n  <b/>\n</a>\n", klass.new(defaults).a(&:b)
      assert_equal "<a>\n <b/>\n</a>\n", klass.new(indent: 1, escape_attrs: true).a(&:b)
      assert_raises(NoMethodError) { klass.new(nil) }
      assert_raises(TypeError) { klass.new("buffer") }
      assert_raises(ArgumentError) { klass.new({}, 2) }
    end
  end

  def test_odd_options
    each_builder do |klass|
      assert_equal "<a/>\n", klass.new(indent: 1.5).a
      assert_raises(ArgumentError) { klass.new(indent: -1).a { |xml| xml.b } }
      assert_raises(TypeError) { klass.new(indent: "2").a { |xml| xml.b } }
      assert_raises(ArgumentError) { klass.new(indent: 2, margin: -1).a }
      assert_equal "<a/>", klass.new(target: false).a
    end
  end
end
