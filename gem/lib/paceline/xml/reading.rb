# frozen_string_literal: true

require_relative "native"
require_relative "reading/parse_error"
require_relative "reading/encoding"

module Paceline
  module XML
    # XML documents as the hashes of ActiveSupport's XmlMini. Needs nothing of ActiveSupport, unless the native part was not built: then
    # ActiveSupport's REXML backend reads. The backend is active_support/xml_mini/paceline. Guide: docs/xml.md, "Reading".
    module Reading
      # The most that a document may be; what is beyond any of these is refused with a ParseError. REXML knows only `bytes`.
      #
      # bytes::      of the document, as it comes and as UTF-8 (default 64 MiB, never more than 1 GiB)
      # elements::   altogether (default 1,000,000)
      # attributes:: of one element (default 1,000)
      # expansion::  bytes of the values of entities that are read where they are referred to, and one for each reference (default 65,536)
      Limits = Struct.new(:bytes, :elements, :attributes, :expansion, keyword_init: true)
      # Deeper than any document that is within the other limits.
      BOTTOMLESS = 2**30
      private_constant :BOTTOMLESS

      @limits = Limits.new(bytes: 64 << 20, elements: 1_000_000, attributes: 1_000, expansion: 65_536)

      class << self
        # The limits, to be changed in place before documents are read: `Paceline::XML::Reading.limits.bytes = 1 << 20`.
        attr_reader :limits

        # The hash of a document: a String, nil, or anything with `read`. Nothing at all gives {}. `depth` is how many elements may be
        # within each other; negative means any number. Raises ParseError, a REXML::ParseException. Where REXML reads, XmlMini.depth counts.
        def parse(data, depth: 100)
          text = text_of(data)
          return {} if text.empty?
          return ByRexml.parse(text, limits.bytes) unless NATIVE

          reading(text, depth, false).build(nil, nil, nil)
        end

        # For `Hash.from_xml`: the document as something with `build(parsers, refused, error)`, or nil if that is left to Rails.
        def convertible(data, depth: 100)
          return unless NATIVE

          text = text_of(data)
          reading(text, depth, true) unless text.empty?
        end

        # Whether documents are read natively.
        def native?
          NATIVE
        end

        # What there is to read, as a String. More than a limit of bytes is not read.
        def text_of(data)
          return data if data.instance_of?(String)
          return from(data) if data.respond_to?(:read)

          String.try_convert(data || "") || raise(TypeError, "no implicit conversion of #{data.class} into String")
        end

        private

        def reading(text, depth, convert)
          most = limits
          numbers = [most.bytes, depth.negative? ? BOTTOMLESS : depth, most.elements, most.attributes, most.expansion]
          reading = Native::XmlReading.read(Encoding.bytes(text, most.bytes), numbers, convert)
          raise ParseError.new(*reading) if reading.instance_of?(Array)

          reading
        end

        def from(io)
          text = String.new
          until text.bytesize > limits.bytes
            part = io.read(limits.bytes + 1 - text.bytesize)
            break if part.nil? || part.empty?

            text << part.b
          end
          encoding = io.external_encoding if io.respond_to?(:external_encoding)
          encoding ? text.force_encoding(encoding) : text
        end
      end
    end
  end
end

require_relative "reading/by_rexml" unless Paceline::XML::Reading.native?
