# frozen_string_literal: true

module Paceline
  module XML
    module Reading
      # Documents of any encoding as UTF-8. In this order it is told by a byte order mark, by the String's own encoding if that is none of
      # ASCII's kin (UTF-16LE), by the XML declaration, and by the String's own encoding; UTF-8 otherwise.
      module Encoding
        MARKS = {
          "\x00\x00\xFE\xFF" => ::Encoding::UTF_32BE, "\xFF\xFE\x00\x00" => ::Encoding::UTF_32LE,
          "\xFE\xFF" => ::Encoding::UTF_16BE, "\xFF\xFE" => ::Encoding::UTF_16LE, "\xEF\xBB\xBF" => ::Encoding::UTF_8
        }.transform_keys(&:b).freeze
        DECLARATION = /\A[ \t\r\n]*+<\?xml[ \t\r\n]([^>]{0,300})/n
        NAME = /[ \t\r\n]encoding[ \t\r\n]*=[ \t\r\n]*(?:"([^"]*)"|'([^']*)')/n
        PLAIN = [::Encoding::UTF_8, ::Encoding::BINARY, ::Encoding::US_ASCII].freeze
        private_constant :MARKS, :DECLARATION, :NAME, :PLAIN

        class << self
          # A String whose bytes are `text` in UTF-8, whatever it says of itself. Raises ParseError.
          def bytes(text, most)
            return text if text.bytesize > most

            encoding = of(text)
            return text if encoding == ::Encoding::UTF_8

            text.encode(::Encoding::UTF_8, encoding)
          rescue EncodingError => e
            raise ParseError, "the document can't be read as #{encoding.name}: #{e.message}"
          end

          private

          def of(text)
            first = text.getbyte(0)
            if first == 0 || first == 0xEF || first == 0xFE || first == 0xFF
              bytes = text.byteslice(0, 4).b
              _, marked = MARKS.find { |mark, _| bytes.start_with?(mark) }
              return marked if marked
            end
            own = text.encoding
            return own unless own.ascii_compatible? || own.dummy?

            declared(text) || (PLAIN.include?(own) || own.dummy? ? ::Encoding::UTF_8 : own)
          end

          # UTF-16 and its kin are no answer: the declaration could not have been read.
          def declared(text)
            attributes = DECLARATION.match(text.dup.force_encoding(::Encoding::BINARY)) or return
            name = NAME.match(" #{attributes[1]}") or return
            encoding = ::Encoding.find(name[1] || name[2])
            encoding unless encoding.equal?(::Encoding::BINARY) || encoding.name.start_with?("UTF-16", "UTF-32")
          rescue ArgumentError
            raise ParseError, "encoding #{(name[1] || name[2]).inspect} is not known"
          end
        end
      end
    end
  end
end
