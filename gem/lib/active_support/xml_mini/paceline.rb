# frozen_string_literal: true

require "active_support"
require "active_support/xml_mini"
require "active_support/core_ext/hash/conversions"
require "stringio"
require "paceline/xml/reading"
require "paceline/xml/reading/conversion"

module ActiveSupport
  # The backend of `ActiveSupport::XmlMini.backend = "Paceline"`: hashes like the REXML backend's, read by Paceline::XML::Reading.
  module XmlMini_Paceline
    extend self

    # Parse an XML document, String or IO, into a simple hash. Raises Paceline::XML::ParseError, a REXML::ParseException.
    def parse(data)
      Paceline::XML::Reading.parse(data, depth: XmlMini.depth)
    end
  end
end

Paceline::XML::Reading::Conversion.install(ActiveSupport::XMLConverter)
