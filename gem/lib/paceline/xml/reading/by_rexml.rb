# frozen_string_literal: true

module Paceline
  module XML
    module Reading
      # Where the native part is missing: ActiveSupport's REXML backend reads, with REXML's own limits. Its mistakes become ParseErrors.
      module ByRexml
        class << self
          # The hash of a document, a String that is not empty. Raises ParseError.
          def parse(text, most)
            raise ParseError, "the document is larger than #{most} bytes" if text.bytesize > most

            backend.parse(text)
          rescue ParseError
            raise
          rescue REXML::ParseException, EncodingError, ArgumentError => e
            refuse(e)
          rescue SystemStackError
            raise ParseError, "an entity holds itself, or the document is too deep"
          rescue RuntimeError => e
            # An entity bomb. A time-out is a RuntimeError as well, and no mistake of the document.
            e.instance_of?(RuntimeError) ? refuse(e) : raise
          end

          private

          def backend
            require "active_support"
            require "active_support/xml_mini"
            require "active_support/xml_mini/rexml"
            ActiveSupport::XmlMini_REXML
          end

          # Its first line: the rest is where REXML's source stands.
          def refuse(error)
            raise ParseError, error.message.lines.first.to_s.chomp
          end
        end
      end
    end
  end
end
