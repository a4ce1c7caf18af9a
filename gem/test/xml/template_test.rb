# frozen_string_literal: true

require "helper"
require "xml/support/template_stage"

# What templates are compiled to: source in, source out, by each reader that this Ruby has.
class XMLTemplateTest < Minitest::Test
  Template = Paceline::XML::Template

  # `E.` stands for `::Paceline::XML::Emit.` here.
  def assert_compiled(expected, source, **options)
    TemplateStage::READERS.each do |reader|
      compiled = Template.edits(source, reader: reader, **options).apply
      assert_equal expected, compiled.gsub("::Paceline::XML::Emit.", "E.").gsub("\".freeze", "\""), "#{reader}: #{source}"
    end
  end

  def assert_kept(*sources, **options)
    sources.each { |source| assert_compiled(source, source, **options) }
  end

  def test_leaves
    assert_compiled 'E.leaf(xml, "<br/>")', "xml.br"
    assert_compiled 'E.leaf(xml, "<br/>")', "xml.br()"
    assert_compiled 'E.leaf(xml, "<title>\x02</title>", post.title)', "xml.title post.title"
    assert_compiled 'E.leaf(xml, "<title>\x02</title>", post.title)', "xml.title(post.title)"
    assert_compiled 'E.leaf(xml, "<title>\x02</title>", (up post.title, 5))', "xml.title up post.title, 5"
    assert_compiled 'E.leaf(xml, "<Title>a &amp; b</Title>")', 'xml.Title "a & b"'
    assert_compiled 'E.leaf(xml, "<a></a>")', 'xml.a ""'
    assert_compiled 'E.leaf(xml, "<a>\x02</a>", nil)', "xml.a nil"
    assert_compiled 'E.leaf(xml, "<a>5</a>")', "xml.a 5"
    assert_compiled 'E.leaf(xml, "<a>true</a>")', "xml.a true"
    assert_compiled 'E.leaf(xml, "<a>\u{e9}\#</a>")', 'xml.a "é#"'
    assert_compiled 'E.leaf(xml, "<t\u{e9}>\x02</t\u{e9}>", x)', "xml.té x"
  end

  def test_attributes
    assert_compiled 'E.leaf(xml, "<link href=\"\x01\" rel=\"self\"/>", url)', 'xml.link(href: url, rel: "self")'
    assert_compiled 'E.leaf(xml, "<link a=\"1\" b:c=\"&lt;&quot;\" d=\"\" e=\"f\"/>")', %q(xml.link :a => 1, "b:c": '<"', d: nil, "e" => :f)
    assert_compiled 'E.leaf(xml, "<link a=\"\x01\" b=\"\x01\">\x02</link>", (t + 1), x, (y ? 1 : 2))', "xml.link(t + 1, a: x, b: y ? 1 : 2)"
    assert_compiled 'E.leaf(xml, "<link a=\"\x01\"/>", x)', "xml.link({ a: x })"
    assert_compiled 'E.leaf(xml, "<link a=\"\x01\">t</link>", x)', 'xml.link "t", { "a" => x }'
    assert_compiled 'E.leaf(xml, "<link a=\"\x01\"/>", (:"<"))', 'xml.link a: :"<"'
  end

  def test_names
    assert_compiled 'E.leaf(xml, "<soap:Envelope/>")', "xml.soap :Envelope"
    assert_compiled 'E.leaf(xml, "<soap:Body a=\"\x01\">x</soap:Body>", y)', 'xml.soap :Body, "x", a: y'
    assert_compiled 'E.leaf(xml, "<a-b>\x02</a-b>", x)', 'xml.tag!("a-b", x)'
    assert_compiled 'E.leaf(xml, "<a:b/>")', "xml.tag! :a, :b"
    assert_compiled 'E.text(xml, "a &lt; b")', 'xml.text! "a < b"'
    # Ruby's own are names as others.
    assert_compiled 'E.leaf(xml, "<class>x</class>")', 'xml.class "x"'
    assert_compiled 'E.leaf(xml, "<p/>"); E.leaf(xml, "<id/>"); E.leaf(xml, "<end/>")', "xml.p; xml.id; xml.end"
  end

  def test_names_that_are_elements_once_used
    Paceline::XML::Builder.new.once_used
    assert_compiled 'E.leaf(xml, "<once_used/>")', "xml.once_used"
  end

  def test_lines_stay
    assert_compiled %(E.leaf(xml, "<a b=\\"c\\" d=\\"\\x01\\"/>", \n\n\nx\n)\nE.leaf(xml, "<e/>")),
                    %(xml.a(\n  b: "c", # why\n  # and\n  d: x\n)\nxml.e)
    assert_compiled %(E.leaf(xml, "<a>b</a>"\n\n)), %(xml.a(\n  "b"\n))
  end

  def test_blocks_as_statements
    assert_compiled '(E.open(xml, "<a>"); begin; E.leaf(xml, "<b/>") ; ensure; E.close(xml, "</a>"); end)', "xml.a { xml.b }"
    assert_compiled %((E.open(xml, "<a b=\\"\\x01\\">", x); begin;\n  E.leaf(xml, "<c/>")\n; ensure; E.close(xml, "</a>"); end)),
                    %(xml.a(b: x) do\n  xml.c\nend)
    assert_compiled '(E.open(xml, "<a>"); begin; ; ensure; E.close(xml, "</a>"); end) if x', "xml.a { } if x"
    # The value of a block's last statement may be used.
    assert_compiled 'y.map { (E.open(xml, "<a>"); begin; E.leaf(xml, "<b/>") ; ensure; E.close(xml, "</a>"); end; xml.target!) }',
                    "y.map { xml.a { xml.b } }"
  end

  def test_parameters
    # The parameter is the builder, under another name or the same.
    assert_compiled '(E.open(xml, "<a>"); begin; E.leaf(xml, "<b/>") ; ensure; E.close(xml, "</a>"); end)', "xml.a { |x| x.b }"
    assert_compiled '(E.open(xml, "<a>"); begin; E.leaf(xml, "<b/>"); f(xml) ; ensure; E.close(xml, "</a>"); end)', "xml.a { |xml| xml.b; f(xml) }"
    assert_compiled 'E.element(xml, "<a>") { |x| E.leaf(x, "<b/>"); f(x) }', "xml.a { |x| x.b; f(x) }"
    assert_compiled 'E.element(xml, "<a>") { |x| y.each { |xml| E.leaf(x, "<b/>") } }', "xml.a { |x| y.each { |xml| x.b } }"
    assert_compiled 'xml.a { |x, y| E.leaf(xml, "<b/>") }', "xml.a { |x, y| xml.b }"
    assert_compiled 'E.element(xml, "<a>") { _1.b }', "xml.a { _1.b }"
    assert_compiled 'E.element(xml, "<a>") { |x| x.b; x = 5 }', "xml.a { |x| x.b; x = 5 }"
  end

  # Blocks that stay blocks.
  def test_blocks_that_stay
    element = 'E.element(xml, "<a>")'
    ["{ y = 1 }", "{ next }", "{ break }", "{ redo }", "{ return }", "{ yield }", "{ z { return } }", "do; rescue; end", "do; ensure; end",
     "{ y in [z] }", "{ case y; in { z: }; end }", "{ /(?<z>.)/ =~ y }", "{ y, z = 1 }", "{ for y in z do end }", "{ begin; rescue => y; end }",
     "{ super }", "{ begin; rescue; retry; end }"].each do |block|
      assert_compiled "#{element} #{block}", "xml.a #{block}"
    end
    assert_compiled "y = #{element} { z }", "y = xml.a { z }"
    assert_compiled "f(#{element} { z })", "f(xml.a { z })"
    assert_compiled "#{element} { z }.size", "xml.a { z }.size"
    assert_compiled "#{element} { z } and y", "xml.a { z } and y"
    # A block within that jumps for itself, and a variable of the scope around.
    assert_compiled '(E.open(xml, "<a>"); begin; y.each { next } ; ensure; E.close(xml, "</a>"); end)', "xml.a { y.each { next } }"
    assert_compiled 'y = 1; (E.open(xml, "<a>"); begin; y += 1 ; ensure; E.close(xml, "</a>"); end)', "y = 1; xml.a { y += 1 }"
    assert_compiled '(E.open(xml, "<a>"); begin; y += 1 ; ensure; E.close(xml, "</a>"); end)', "xml.a { y += 1 }", locals: [:y]
  end

  def test_refused_arguments
    assert_kept "xml.a(*x)", "xml.a(**x)", "xml.a(&x)", "xml.a x, *y", "xml.a b: 1, **x", "xml&.a", "xml::a", "xml.(5)", "xml[5]", "xml + 5",
                "xml.a x, y", 'xml.a "x", "y"', "xml.a x, nil", "xml.a({ b: 1 }, x)", "xml.a({ b: 1 }, { c: 2 })", "xml.a({ b: 1 }, c: 2)",
                "xml.a({})", "xml.a b: 1, \"b\" => 2", "xml.a x => 1", 'xml.a "b#{c}": 1', 'xml.a "b#{c}" => 1', 'xml.a "b c": 1',
                'xml.a "b>" => 1', 'xml.a "b=": 1', "xml.a('b\"': 1)", 'xml.a "" => 1', "xml.a <<X\ntext\nX\n", "xml.a(b: <<X)\ntext\nX\n",
                "xml.a 5 => 6", "xml\n  .a", "xml.\n  a", "xml.a = 5", "xml.a += 5", 'xml.a("b") { c }', "xml.a(nil) { b }",
                'xml.a x, "b" => 1', "xml.a :ns, x"
    assert_kept "href = 1; xml.a(href:)"
  end

  def test_refused_names
    assert_kept "xml.tag!", "xml.tag! x", 'xml.tag! "a#{b}"', 'xml.tag! "a b"', 'xml.tag! ""', "xml.tag!(*x)", "xml.text! x", "xml.text!",
                'xml.text! "a", "b"', "xml.text! :a", 'xml.text!("a") { }', 'xml.comment! "x"', 'xml.cdata! "x"', "xml.instruct!",
                "xml.declare! :x", "xml.target!", "xml << x", "xml.nil?", "xml.a?", "xml.a!", "xml.__send__ :a", "xml.__id__", "xml.equal? x",
                "xml.method_missing :a", "xml._escape x", "xml._indent", "xml.initialize", "xml.a :\"b c\""
    assert_kept "xml.instance_eval { a }", "xml.instance_exec(1) { a }"
  end

  # Constants that Builder would not write as they are, or whose value only Ruby can tell, are values.
  def test_constants_that_are_values
    ['"a\n"', "'it\\\\'", "0x10", "1_0", "1.5", "-1", "?a", "%q(x)", '"a" "b"', '"a#{b}"', '"#@a"', ":a.b", "%w[a]", "\"\u0085\"", "\"\u007F\"",
     "\"\uFFFE\"", "__LINE__"].each do |value|
      simple = value.match?(/\A@{0,2}[a-z_][\w.]*\z/) ? value : "(#{value})"
      assert_compiled %(E.leaf(xml, "<a>\\x02</a>", #{simple})), "xml.a #{value}"
      assert_compiled %(E.leaf(xml, "<a b=\\"\\x01\\"/>", #{simple})), "xml.a b: #{value}"
    end
  end

  def test_other_receivers
    assert_kept "foo.a", "a { |xml| xml.b }", "->(xml) { xml.b }", "a.each { |x; xml| xml.b }", "b = xml; b.c", "@xml.a", "(xml).a", "self.xml.a",
                "xml_.a", "a { |b, (c, xml)| xml.d }", "a { |xml = 1| xml.d }", "a { |*xml| xml.d }", "a { |xml:| xml.d }"
    assert_compiled 'a { |xml| xml.b }; E.leaf(xml, "<c/>")', "a { |xml| xml.b }; xml.c"
  end

  # One of these, and nothing is compiled.
  def test_templates_that_stay
    ["xml = x", "xml ||= x", "xml, y = x", "for xml in x do end", "begin; rescue => xml; end", "/(?<xml>.)/ =~ x", "case x; in { xml: }; end",
     "x => xml", "a { xml = 1 }", "eval(x)", "binding", "instance_eval(x)", "binding.local_variable_set(:xml, 1)", "def xml.a; end",
     "def a; end", "class << xml; end", "alias a b", "undef a", "xml.define_singleton_method(:a) { }"].each do |statement|
      assert_kept "xml.first\n#{statement}\nxml.last"
    end
    assert_kept "xml.a(", "xml.a }", "end; xml.a; def x", "xml.a\n__END__\nxml.b", ""
    assert_kept "xml.a \"\xE9\"".dup.force_encoding("ISO-8859-1"), "xml.a \"\xE9\"", "xml.a".b
  end

  def test_variables_that_are_known
    # `count -1` is a call with an argument, or a subtraction.
    assert_compiled 'E.leaf(xml, "<a b=\"1\">\x02</a>", (count -1))', "xml.a count -1, b: 1", locals: ["count", :class, "Upper", "a-b"]
    assert_compiled 'E.leaf(xml, "<a b=\"1\">\x02</a>", (count -1))', "xml.a count -1, b: 1", locals: "count: 5, **options"
    assert_compiled 'E.leaf(xml, "<a>\x02</a>", (count -1, b: 1))', "xml.a count -1, b: 1"
  end

  def test_colon_before
    assert_compiled 'y({z: E.leaf(xml, "<b/>")})', "y({z:xml.b})"
  end

  def test_columns
    source = "xml.a(b: 1, c: foo.bar)\nxml.d { boom.x }\n"
    edits = Template.edits(source)
    lines = edits.apply.lines
    [[1, "foo.bar"], [1, ".bar"], [2, "boom.x"]].each do |line, text|
      column = lines[line - 1].index(text)
      found = edits.original_columns(line, column...column + text.size)
      assert_equal text, source.lines[line - 1][found]
    end
    column = lines[0].index("Emit.leaf")
    assert_equal "xml.a(b: 1, c: ", source.lines[0][edits.original_columns(1, column...column + 4)]
    column = lines[1].index("begin")
    assert_equal "xml.d {", source.lines[1][edits.original_columns(2, column...column + 5)]
  end

  def test_columns_over_several_lines
    source = "xml.a(\n  b: 1,\n  c: foo.bar # x\n)\nxml.d x.y\n"
    edits = Template.edits(source)
    [[3, "foo.bar"], [5, "x.y"]].each do |line, text|
      column = edits.apply.lines[line - 1].index(text)
      assert_equal text, source.lines[line - 1][edits.original_columns(line, column...column + text.size)]
    end
  end
end
