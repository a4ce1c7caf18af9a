# frozen_string_literal: true

require_relative "support/reading_helper"

# The backend beside those of REXML, Nokogiri and LibXML, on random documents, sound and damaged. XML_SEEDS=5000 for more of them.
class ReadingBackendsTest < Paceline::Test
  include ReadingHelper

  def setup
    skip "there is no native part" unless Reading.native?
    super
  end

  def each_seed(&block)
    SEEDS.times(&block)
  end

  def theirs(name, document)
    with_backend(name) { XmlMini.parse(document) }
  end

  # With the order of keys. REXML has no rule that these documents break.
  def test_hashes_are_those_of_rexml
    each_seed do |seed|
      document = RandomDocuments.new(seed).document
      assert_equal theirs("REXML", document).inspect, read(document), "seed #{seed}: #{document.inspect}"
    end
  end

  def test_hashes_are_those_of_nokogiri_and_libxml
    names = backends("Nokogiri", "NokogiriSAX", "LibXML", "LibXMLSAX")
    skip "none of them is here" if names.empty?
    each_seed do |seed|
      document = RandomDocuments.new(seed, common: true).document
      ours = XmlMini.parse(document)
      names.each { |name| assert_equal theirs(name, document), ours, "#{name}, seed #{seed}: #{document.inspect}" }
    end
  end

  # What is damaged is refused, or REXML has the same hash or none.
  def test_damaged_documents
    refused = 0
    each_seed do |seed|
      document = RandomDocuments.new(seed).damaged
      ours = read(document)
      next refused += 1 if ours.start_with?("!")

      begin
        # Without the order of keys: damage makes attributes that differ in their prefix only.
        assert_equal theirs("REXML", document), XmlMini.parse(document), "seed #{seed}: #{document.inspect}"
      rescue REXML::ParseException
        nil
      end
    end
    assert_operator refused, :>, SEEDS / 2
  end

  # libxml2 holds documents to the letter as well. It lets two things pass: version "1." and no space after <!DOCTYPE.
  def test_damaged_documents_are_refused_where_libxml2_refuses_them
    skip "no Nokogiri here" if backends("Nokogiri").empty?
    each_seed do |seed|
      document = RandomDocuments.new(seed).damaged
      next if document.b.match?(/<\?xml[^>]*version="1\."|<!DOCTYPE[^ \t\r\n]/n)

      mistakes = begin
        Nokogiri::XML(document).errors.map { |error| error.message.scrub }
      rescue Nokogiri::XML::SyntaxError => e
        [e.message.scrub]
      end
      mistakes.reject! { |message| message.match?(/WARNING|not absolute|valid URI|Empty XML namespace/) }
      assert_equal mistakes.empty?, !read(document).start_with?("!"), "seed #{seed}: #{document.inspect}: #{mistakes.first}"
    end
  end
end
