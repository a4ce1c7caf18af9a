# frozen_string_literal: true

require "helper"
require "stringio"
require "active_support"
require "active_support/core_ext"
require "paceline/xml/reading"
require "paceline/xml/reading/parser"
require_relative "random_documents"

# What the tests of reading share. Documents are read by the backend as it is (natively, if that was built) and by the reader in Ruby.
module ReadingHelper
  Reading = Paceline::XML::Reading
  XmlMini = ActiveSupport::XmlMini
  # How many random documents, each of another seed.
  SEEDS = Integer(ENV.fetch("XML_SEEDS", "150"))

  def setup
    @backend, @depth, @limits = XmlMini.backend, XmlMini.depth, Reading.limits.dup
    XmlMini.backend = "Paceline"
  end

  def teardown
    XmlMini.backend, XmlMini.depth = @backend, @depth
    Reading.limits.members.each { |name| Reading.limits[name] = @limits[name] }
    GC.stress = false
  end

  def in_ruby(document)
    text = Reading.text_of(document)
    text.empty? ? {} : Reading::Parser.new(Reading::Encoding.string(text, Reading.limits.bytes), XmlMini.depth, Reading.limits).parse
  end

  # What both readers make of it: its inspect, with the order of its keys, or its mistake.
  def read(document)
    told = [-> { XmlMini.parse(document.dup) }, -> { in_ruby(document.dup) }].map do |way|
      way.call.inspect
    rescue Paceline::XML::ParseError => e
      "! #{e.message}"
    end
    # A document type without an end is one mistake to quick-xml, and many to the reader in Ruby.
    unless told[0].include?("no end to the document type") && told[1].start_with?("!")
      assert_equal told[0], told[1], "in Ruby, of #{document.inspect}"
    end
    told[0]
  end

  def with_backend(name, &block)
    XmlMini.with_backend(name, &block)
  end

  # Which of these backends can be had here.
  def backends(*names)
    names.select do |name|
      XmlMini.with_backend(name) { true }
    rescue LoadError
      false
    end
  end
end
