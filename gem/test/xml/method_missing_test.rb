# frozen_string_literal: true

require "helper"
require "builder"
require "paceline/xml"

# A method_missing of a subclass is asked when a builder meets a tag for the first time, and not again: by then the tag is a method of it.
class XMLMethodMissingTest < Paceline::Test
  def test_a_subclass_is_asked_once_for_each_tag_of_each_builder
    assert_equal Array.new(2) { "<foo n=\"1\"/><foo/><bar n=\"1\">t</bar><bar>t</bar>" }, twice(::Builder::XmlMarkup)
    assert_equal twice(::Builder::XmlMarkup), twice(Paceline::XML::Builder)
  end

  def test_nor_do_the_tags_of_other_builders_change_that
    plain = Paceline::XML::Builder.new
    2.times { [plain.foo, plain.bar("t")] }
    assert_equal twice(::Builder::XmlMarkup), twice(Paceline::XML::Builder)
  end

  def test_without_methods_of_tags_it_is_asked_each_time
    [::Builder::XmlBase, Paceline::XML::Base].each { |base| base.cache_method_calls = false }
    assert_equal Array.new(2) { "<foo n=\"1\"/><foo n=\"1\"/><bar n=\"1\">t</bar><bar n=\"1\">t</bar>" }, twice(::Builder::XmlMarkup)
    assert_equal twice(::Builder::XmlMarkup), twice(Paceline::XML::Builder)
  ensure
    [::Builder::XmlBase, Paceline::XML::Base].each { |base| base.cache_method_calls = true }
  end

  private

  def twice(parent)
    subclass = Class.new(parent) { def method_missing(name, *args, &block) = super(name, *args, { n: 1 }, &block) }
    Array.new(2) do
      xml = subclass.new
      2.times { xml.foo }
      2.times { xml.bar("t") }
      xml.target!
    end
  end
end
