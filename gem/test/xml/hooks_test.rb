# frozen_string_literal: true

require "helper"
require "xml/support/pair"

# What others define on builders: subclasses, modules, methods of one builder, Builder reopened. Whatever it is, it is called where the gem
# builder calls it.
class XMLHooksTest < Paceline::Test
  PAIRS = [[Paceline::XML::Builder, Paceline::XML::Events], *([[::Builder::XmlMarkup, ::Builder::XmlEvents]] if defined?(::Builder::XmlMarkup))].freeze

  # A document that goes past every hook.
  def write(xml)
    xml.instruct!
    xml.feed(xmlns: "n", "b" => "\"<'") do
      xml.title("one & two")
      xml.entry { xml.br }
      xml.text!("t<")
      xml << "<raw/>"
      xml.comment!("c")
      xml.cdata!("d")
      xml.declare!(:E, "f")
      xml.soap(:Envelope, :plain, a: :"&b;")
      xml.none(nil)
    end
    xml.target!
  end

  def outcome
    yield
  rescue StandardError => e
    [e.class.name.sub("Paceline::XML", "Builder"), e.message.lines.first.gsub(/0x\h+/, "").gsub("Paceline::XML::Builder", "Builder::XmlMarkup")]
  end

  def each_way
    skip "the gem builder is not installed" unless XMLPrograms::Pair.stock
    XMLPrograms::Hooks::ALL.each do |name, source|
      outcomes = XMLPrograms::Pair.then { |pair| [pair::OURS, pair::STOCK] }.map { |_, markup, _| [{}, { indent: 2 }].map { |options| outcome { write(yield(markup, source, options)) } } }
      assert_equal outcomes.last, outcomes.first, name
    end
  end

  def test_each_hook_in_a_subclass
    each_way { |base, source, options| Class.new(base) { class_eval(source) }.new(options) }
  end

  def test_each_hook_in_a_subclass_of_a_subclass
    each_way { |base, source, options| Class.new(Class.new(Class.new(base)) { class_eval(source) }).new(options) }
  end

  def test_each_hook_in_a_module
    each_way { |base, source, options| Class.new(base) { include(Module.new { module_eval(source) }) }.new(options) }
    each_way { |base, source, options| Class.new(base) { prepend(Module.new { module_eval(source) }) }.new(options) }
  end

  def test_each_hook_of_one_builder
    each_way do |base, source, options|
      xml = base.new(options)
      xml.before
      xml.instance_eval(source)
      xml
    end
  end

  def test_each_hook_in_the_singleton_class
    each_way do |base, source, options|
      xml = base.new(options)
      class << xml
        self
      end.class_eval(source)
      xml
    end
  end

  def test_other_builders_know_nothing_of_it
    PAIRS.each do |klass,|
      plain = klass.new
      changed = klass.new
      def changed._escape(text) = text.upcase
      def changed.title(*) = _text("own")
      changed.a { changed.b("x") && changed.title }
      plain.a { plain.b("x") && plain.title }
      assert_equal "<a><b>X</b>own</a>", changed.target!
      assert_equal "<a><b>x</b><title/></a>", plain.target!
    end
  end

  def test_a_hook_that_is_defined_while_an_element_is_open
    PAIRS.each do |klass,|
      xml = klass.new(indent: 1)
      xml.a do
        xml.b("x")
        def xml._end_tag(name) = @target << "(#{name})"
        xml.c("y")
      end
      assert_equal "<a>\n <b>x</b>\n <c>y(c)\n(a)\n", xml.target!
    end
  end

  def test_a_hook_that_a_class_gets_later
    PAIRS.each do |klass,|
      subclass = Class.new(klass)
      assert_equal "<a>x</a>", subclass.new.a("x")
      subclass.class_eval { def _escape(text) = "#{super}!" }
      assert_equal "<a>x!</a>", subclass.new.a("x")
      subclass.send(:remove_method, :_escape)
      assert_equal "<a>x</a>", subclass.new.a("x")
      subclass.send(:define_method, :b) { |*| @target << "own b" }
      assert_equal "own b", subclass.new.b
      assert_equal "<a>x</a>", klass.new.a("x")
    end
  end

  def test_variables_in_own_methods
    PAIRS.each do |klass,|
      subclass = Class.new(klass) do
        def state = [@level, @indent, @encoding, @quote, @explicit_nil_handling].inspect
        def deeper! = @level += 2
        def wider! = @indent = 4
        def single! = @quote = "'"
        def turned!(target) = @target = target
        def encoded!(name) = @encoding = name
      end
      xml = subclass.new(indent: 2, margin: 1, explicit_nil_handling: :yes)
      assert_equal '[1, 2, "utf-8", "\"", :yes]', xml.state
      xml.a do
        assert_equal '[2, 2, "utf-8", "\"", :yes]', xml.state
        xml.deeper!
        xml.single!
        xml.b(c: 1)
        xml.wider!
        xml.d
      end
      xml.encoded!("us-ascii")
      xml.e("\u00e9")
      written = xml.target!
      assert_equal "  <a>\n        <b c='1'/>\n                <d/>\n            </a>\n            <e>&#233;</e>\n", written
      xml.turned!(list = [])
      assert_same list, xml.f
      assert_same list, xml.target!
      assert_equal ["            ", "<f", "/", ">", "\n"], list
      xml.turned!(other = +"")
      xml.g
      assert_equal "            <g/>\n", other
    end
  end

  def test_own_steps_called_from_outside
    PAIRS.each do |klass,|
      xml = klass.new(indent: 2)
      xml.a do
        xml.__send__(:_indent)
        xml.__send__(:_start_tag, :b, { c: "<" })
        xml.__send__(:_text, "<raw>")
        xml.__send__(:_end_tag, :b)
        xml.__send__(:_newline)
        assert_equal "&lt;&#10;", xml.__send__(:_attr_value, "<\n")
        assert_equal "&lt;", xml.__send__(:_escape, "<")
      end
      assert_equal "<a>\n  <b c=\"&lt;\"><raw></b>\n</a>\n", xml.target!
    end
  end

  # From outside a private method is a name like any other: and then a method of the builder, which the builder itself calls.
  def test_a_private_name_from_outside_is_a_tag_and_a_method_from_then_on
    PAIRS.each do |klass,|
      xml = klass.new
      assert_equal "<_end_tag/>", xml._end_tag.dup
      xml.a("x")
      assert_equal "<_end_tag/><a>x<_end_tag:a/>", xml.target!
    end
  end

  def test_undefined_methods_are_tags
    PAIRS.each do |klass,|
      subclass = Class.new(klass) { undef_method(:comment!, :nil?) }
      xml = subclass.new
      xml.comment!("a")
      xml.nil?
      assert_equal "<comment!>a</comment!><nil?/>", xml.target!
    end
  end

  def test_a_tag_of_its_own_may_call_super
    PAIRS.each do |klass,|
      subclass = Class.new(klass) { def title(text, *rest, &block) = super(text.upcase, *rest, &block) }
      xml = subclass.new
      2.times { xml.title("t", a: 1) }
      klass.new.title("plain")
      xml.title("t")
      assert_equal "<title a=\"1\">T</title><title a=\"1\">T</title><title>T</title>", xml.target!
    end
  end

  def test_an_initialize_of_its_own
    PAIRS.each do |klass,|
      subclass = Class.new(klass) do
        def initialize(name, **options)
          @name = name
          super(options)
          @target << "<!-- #{@name} -->"
        end

        def named! = @target << @name
      end
      xml = subclass.new("n", indent: 2)
      xml.a
      xml.named!
      assert_equal "<!-- n --><a/>\nn", xml.target!
      without = Class.new(klass) { def initialize; end }.new
      assert_raises(NoMethodError) { without.a("x") }
    end
  end

  def test_events
    PAIRS.each do |_, klass|
      handler = Class.new do
        attr_reader :seen

        def initialize = @seen = []
        def start_tag(*args) = @seen << [:start, *args]
        def end_tag(*args) = @seen << [:end, *args]
        def text(*args) = @seen << [:text, *args]
      end.new
      xml = klass.new(target: handler, indent: 1)
      assert_same handler, xml.a(b: 1) { xml.c("t & u", d: "<") && xml.e(:f) }
      assert_equal [[:start, :a, { b: 1 }], [:text, "\n"], [:text, " "], [:start, :c, { d: "<" }], [:text, "t & u"], [:end, :c], [:text, "\n"],
                    [:text, " "], [:start, :"e:f", nil], [:end, :"e:f"], [:text, "\n"], [:end, :a], [:text, "\n"]], handler.seen
      assert_raises(NoMethodError) { xml.comment!("c") }
    end
  end

  # What Ruby itself does to objects, through Kernel's methods: no crash, whatever comes of it.
  def test_methods_of_kernel_applied_to_a_builder
    kernel = %i[dup clone freeze inspect to_s hash instance_variables methods singleton_class class frozen? itself then].map { |name| Kernel.instance_method(name) }
    xml = Paceline::XML::Builder.new
    xml.a("x")
    kernel.each { |method| outcome { method.bind_call(xml) } }
    outcome { Marshal.dump(xml) }
    copy = outcome { Kernel.instance_method(:dup).bind_call(Paceline::XML::Builder.new) }
    outcome { copy.a("x") { 1 } }
    outcome { Paceline::XML::Builder.allocate.a("x") }
    outcome { Paceline::XML::Builder.allocate.target! }
    outcome { Paceline::XML::Builder.allocate.__send__(:initialize).a }
    outcome { ObjectSpace.each_object(Paceline::XML::Builder) { nil } }
    assert_kind_of String, Kernel.instance_method(:to_s).bind_call(xml)
  end
end
