# frozen_string_literal: true

require "helper"
require "stringio"
require "active_support"
require "active_support/core_ext"
require "paceline/xml/reading"
require_relative "random_documents"

# What the tests of reading share.
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

  # What becomes of it: its inspect, with the order of its keys, or its mistake.
  def read(document)
    XmlMini.parse(document.dup).inspect
  rescue Paceline::XML::ParseError => e
    "! #{e.message}"
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
