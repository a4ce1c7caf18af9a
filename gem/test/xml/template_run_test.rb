# frozen_string_literal: true

require "helper"
require "xml/support/template_stage"
require "xml/support/random_template"
begin
  require "builder"
rescue LoadError
  # The tests that compare are skipped.
end

# Templates run by the gem builder and, compiled, by ours: same bytes, same failures in the same lines.
class XMLTemplateRunTest < Minitest::Test
  STOCK = defined?(::Builder::XmlMarkup) && !(::Builder::XmlMarkup <= Paceline::XML::Base) ? ::Builder::XmlMarkup : nil
  Template = Paceline::XML::Template

  TemplateStage.templates.each do |name, source|
    define_method("test_#{name.tr(" ", "_")}") do
      skip "the gem builder is not here" unless STOCK
      [{}, { indent: 0 }, { quote: :single }].each { |options| assert_same(source, options) }
      assert_equal name.end_with?("!"), !TemplateStage.run(source, STOCK).error.nil?
    end
  end

  def test_line_ends_of_windows
    skip "the gem builder is not here" unless STOCK
    TemplateStage.templates.each_value { |source| assert_same(source.gsub("\n", "\r\n"), {}) unless source.match?(/<<|\\\n/) }
  end

  # XML_TEMPLATE_SEEDS=FROM..TO for other ones than usual.
  def test_random_templates
    skip "the gem builder is not here" unless STOCK
    from, to = ENV.fetch("XML_TEMPLATE_SEEDS", "1..100").split("..").map(&:to_i)
    compiled = (from..to).count do |seed|
      source = RandomTemplate.new(seed).source
      assert_same(source, {}, seed)
      Template.compile(source) != source
    end
    assert_operator compiled, :>, (to - from) * 0.8
  end

  # Both tell the same of every template, here where Ruby has both.
  def test_readers_agree
    skip "only one reader here" if TemplateStage::READERS.size < 2
    TemplateStage.templates.each do |name, source|
      one, other = TemplateStage::READERS.map { |reader| Template.edits(source, reader: reader).apply }
      assert_equal one, other, name
    end
    (1..100).each do |seed|
      one, other = TemplateStage::READERS.map { |reader| Template.edits(RandomTemplate.new(seed).source, reader: reader).apply }
      assert_equal one, other, seed
    end
  end

  def test_most_is_compiled
    compiled = TemplateStage.templates.count { |_, source| Template.compile(source) != source }
    assert_operator compiled, :>, TemplateStage.templates.size * 0.9
  end

  def test_lines_stay
    TemplateStage.templates.each { |name, source| assert_equal source.count("\n"), Template.compile(source).count("\n"), name }
  end

  private

  def assert_same(source, options, name = nil)
    stock = TemplateStage.run(source, STOCK, **options)
    assert_equal stock, TemplateStage.run(source, Paceline::XML::Builder, **options), "not compiled #{name}"
    TemplateStage::READERS.each do |reader|
      compiled = Template.edits(source, reader: reader).apply
      ours = TemplateStage.run(compiled, Paceline::XML::Builder, **options)
      assert_equal stock, ours, "#{reader} #{name} #{options}\n#{source}\n#{compiled}"
    end
  end
end
