# frozen_string_literal: true

require "helper"
require "open3"

# Paceline::XML.replace_builder!, each time in a process of its own, with the gem builder there before, there later, and not there.
class XMLReplacementTest < Paceline::Test
  LIB = File.expand_path("../../lib", __dir__)
  # What a file that is required finds when the gem is not installed.
  HIDDEN = <<~RUBY
    module Kernel
      alias_method :require_shown, :require
      def require(name) = name.start_with?("builder") ? raise(LoadError, "cannot load such file -- \#{name}") : require_shown(name)
    end
  RUBY
  DOCUMENT = 'xml = Builder::XmlMarkup.new(indent: 1); xml.instruct!; xml.a(b: "\"") { xml.c("é & <") }; puts xml.target!'
  WRITTEN = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<a b=\"&quot;\">\n <c>é &amp; &lt;</c>\n</a>\n"

  # What a new Ruby prints for the code. It must end well and complain about nothing.
  def ruby(code, env: {}, complaints: false)
    out, err, status = Open3.capture3(env, RbConfig.ruby, "-w", "-I", LIB, "-e", "# encoding: utf-8\n#{code}")
    assert_predicate status, :success?, err
    err = err.lines.grep(/paceline/).reject { |line| line.include?("handled in Ruby") && !complaints }.join
    assert_equal "", err unless complaints
    complaints ? [out, err] : out
  end

  def installed
    Gem::Specification.find_by_name("builder")
  rescue LoadError
    skip "the gem builder is not installed"
  end

  def test_builder_is_loaded_before
    installed
    out = ruby <<~RUBY
      require "builder"
      stock = Builder::XmlMarkup
      require "paceline/xml"
      puts Builder::XmlMarkup.equal?(stock)
      puts Paceline::XML.replace_builder!.equal?(Paceline::XML::Builder), Builder::XmlMarkup.equal?(Paceline::XML::Builder)
      #{DOCUMENT}
    RUBY
    assert_equal "true\ntrue\ntrue\n#{WRITTEN}", out
  end

  # Code that assigns the one constant by itself, and code that has kept the class of Builder's error.
  def test_an_error_is_builders_where_builder_is_loaded_before
    installed
    out = ruby <<~RUBY
      require "builder"
      kept = Builder::IllegalBlockError
      require "paceline/xml"
      Builder.send(:remove_const, :XmlMarkup)
      Builder::XmlMarkup = Paceline::XML::Builder
      2.times do
        begin
          Builder::XmlMarkup.new.comment!("x") { }
        rescue kept => e
          puts e.message, e.class == Builder::IllegalBlockError
        end
        Paceline::XML.replace_builder!
      end
    RUBY
    assert_equal "Blocks are not allowed on XML instructions\ntrue\n" * 2, out
  end

  def test_builder_is_required_afterwards
    installed
    out = ruby <<~RUBY
      require "paceline/xml"
      Paceline::XML.replace_builder!
      %w[builder builder/xmlmarkup builder/xmlevents builder/xmlbase builder/xchar].each { |name| require name }
      begin; require "builder/blankslate"; rescue LoadError; end # Builder 3.3 has none
      puts [Builder::XmlMarkup, Builder::XmlEvents, Builder::XmlBase, Builder::IllegalBlockError].inspect
      puts Builder::XmlMarkup.ancestors.include?(Builder::XmlBase), Builder::XmlEvents < Builder::XmlMarkup
      #{DOCUMENT}
    RUBY
    assert_equal "[Paceline::XML::Builder, Paceline::XML::Events, Paceline::XML::Base, Paceline::XML::IllegalBlockError]\ntrue\ntrue\n#{WRITTEN}", out
  end

  def test_builder_is_not_installed
    out = ruby <<~RUBY
      #{HIDDEN}
      require "paceline/xml"
      puts defined?(Builder).inspect
      puts Paceline::XML.replace_builder!.equal?(Paceline::XML::Builder)
      puts Builder::XChar.encode("é & \\u0080"), Builder::BlankSlate.equal?(BasicObject)
      begin
        Builder::XmlMarkup.new.comment!("a") { 1 }
      rescue Builder::IllegalBlockError => e
        puts e.message
      end
      Paceline::XML.replace_builder!
      #{DOCUMENT}
    RUBY
    assert_equal "nil\ntrue\né &amp; €\ntrue\nBlocks are not allowed on XML instructions\n#{WRITTEN}", out
  end

  def test_it_may_be_called_again
    installed
    out = ruby <<~RUBY
      require "paceline/xml"
      3.times { Paceline::XML.replace_builder! }
      puts Builder::XmlMarkup
      #{DOCUMENT}
    RUBY
    assert_equal "Paceline::XML::Builder\n#{WRITTEN}", out
  end

  def test_subclasses_from_before_and_after
    installed
    out = ruby <<~RUBY
      require "builder"
      class Before < Builder::XmlMarkup
        def title(text) = tag!(:before, text)
        def _escape(text) = super.upcase
      end
      begun = Before.new
      require "paceline/xml"
      Paceline::XML.replace_builder!
      class After < Builder::XmlMarkup
        def title(text) = tag!(:after, text)
        def _escape(text) = super.upcase
      end
      puts Before.ancestors.include?(Paceline::XML::Builder), After.ancestors.include?(Paceline::XML::Builder)
      [begun, Before.new, After.new].each { |xml| puts xml.title("<é") && xml.b("x", a: "y") }
      begin
        Before.new.cdata!("a") { 1 }
      rescue Builder::IllegalBlockError
        puts "refused"
      end
      Builder::XmlBase.cache_method_calls = false
      puts Before.new.c, After.new.c
    RUBY
    lines = out.lines(chomp: true)
    assert_equal %w[false true], lines.first(2)
    assert_equal 2, lines.count("<before>&LT;É</before><b a=\"Y\">X</b>")
    assert_equal 1, lines.count("<after>&LT;É</after><b a=\"Y\">X</b>")
    assert_equal %w[refused <c/> <c/>], lines.last(3)
  end

  def test_xml_markup_may_be_reopened
    installed
    out = ruby <<~RUBY
      require "paceline/xml"
      Paceline::XML.replace_builder!
      class Builder::XmlMarkup
        def title(text) = tag!(:own, text, level: @level)
        def shout(text) = (@target << text.upcase)
      end
      xml = Builder::XmlMarkup.new
      xml.a { xml.title("t"); xml.shout("s"); xml.b }
      puts xml.target!
      module More
        def text!(text) = super("[\#{text}]")
      end
      Builder::XmlMarkup.prepend(More)
      puts Builder::XmlMarkup.new.a("t")
      class Builder::XmlMarkup
        private

        def _attr_value(value) = "-"
      end
      puts Builder::XmlMarkup.new.a(b: 1)
    RUBY
    assert_equal ["<a><own level=\"1\">t</own>S<b/></a>", "<a>[t]</a>", "<a b=\"-\"/>"], out.lines(chomp: true)
  end

  def test_xchar
    installed
    out = ruby <<~'RUBY'
      require "paceline/xml"
      stock = (require "builder"; Builder::XChar.method(:unicode))
      Paceline::XML.replace_builder!
      p Builder::XChar.encode("a & \u0080 \0 caf\xE9".b), Builder::XChar.unicode("caf\xE9"), Builder::XChar::CP1252.size
    RUBY
    assert_equal ["\"a &amp; \u00C2\u20AC \uFFFD caf\u00e9\"", "\"caf\u00e9\"", "27"], out.lines(chomp: true)
  end

  def test_without_the_native_part_it_says_so_once
    out, err = ruby(<<~RUBY, env: { "PACELINE_NATIVE" => "0" }, complaints: true)
      require "paceline/xml"
      Paceline::XML.replace_builder!
      require "paceline/xml"
      #{DOCUMENT}
    RUBY
    assert_equal WRITTEN, out
    assert_equal 1, err.lines.size, err
    assert_match(/slower/, err)
  end
end
