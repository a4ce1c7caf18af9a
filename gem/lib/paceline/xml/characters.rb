# frozen_string_literal: true

module Paceline
  module XML
    # Characters as Builder writes them (Builder::XChar): text of any encoding becomes valid UTF-8 that XML 1.0 (section 2.2) allows.
    # The native part does the same for UTF-8; what it does not take comes here.
    module Characters
      # What bytes 0x80 to 0x9F mean to Windows, which is what they nearly always are when they come as C1 characters.
      # The five that Windows-1252 does not define stay.
      C1, MEANT = (0x80..0x9F).filter_map do |byte|
        meant = [byte].pack("C").encode("UTF-8", "Windows-1252", undef: :replace, replace: "")
        [[byte].pack("U"), meant] unless meant.empty?
      end.transpose.map { |list| list.join.freeze }

      FORBIDDEN = /[^\u{9}\u{A}\u{D}\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/
      MARKUP = /[&<>]/
      REFERENCES = { "&" => "&amp;", "<" => "&lt;", ">" => "&gt;" }.freeze
      REPLACEMENT = "\uFFFD"
      private_constant :C1, :MEANT, :FORBIDDEN, :MARKUP, :REFERENCES

      class << self
        # `string` as valid UTF-8. Binary and UTF-8 strings that are not valid UTF-8 are read as ISO-8859-1.
        # Raises EncodingError for a string of another encoding that has no meaning in it, FrozenError for a frozen binary one that is not
        # ASCII: as Builder does.
        def unicode(string)
          if string.encoding == Encoding::BINARY
            return string if string.ascii_only?

            string = string.clone.force_encoding(Encoding::UTF_8)
            string.valid_encoding? ? string : latin1(string)
          elsif string.encoding == Encoding::UTF_8
            string.valid_encoding? ? string : latin1(string)
          else
            string.encode(Encoding::UTF_8)
          end
        end

        # The bytes as ISO-8859-1, each of which is the character of its number. (To have them transcoded fails now and then in several Ractors.)
        def latin1(string)
          string.unpack("C*").pack("U*")
        end
        private :latin1

        # `string` as text of an element: `&`, `<` and `>` as references, C1 characters read as Windows-1252, characters that XML
        # does not allow as U+FFFD. Always valid UTF-8.
        def encode(string)
          text = unicode(string)
          return Native.xml_escape(text) if NATIVE

          text.tr(C1, MEANT).gsub(FORBIDDEN, REPLACEMENT).gsub(MARKUP, REFERENCES)
        end

        # Encodes text for a document in the encoding called `name`. It is ASCII with character references where that encoding is unknown,
        # can't be written (UTF-7), or lacks a character.
        def encode_as(name, string)
          text = encode(string)
          begin
            encoding = Encoding.find(name)
            return text.encode(encoding) unless encoding.dummy?
          rescue StandardError
            nil
          end
          text.gsub(/[^\u0000-\u007F]/) { |character| "&##{character.ord};" }.force_encoding(Encoding::US_ASCII)
        end

        # An attribute as it is written; what cannot be joined raises Encoding::CompatibilityError.
        def pair(name, quote, value)
          %( #{name}=#{quote}#{value}#{quote})
        end

        # Escaped text for the value of an attribute: line ends, which a parser would turn into spaces, and the quote as references.
        def attribute(text)
          text = text.gsub("\n", "&#10;").gsub("\r", "&#13;")
          # Builder's is a regular expression, and Ruby 3.1 crashes where Ractors use the same one. It makes a difference for what is no text: an error.
          text.valid_encoding? && text.encoding.ascii_compatible? ? text.gsub('"', "&quot;") : text.gsub(/"/, "&quot;")
        end
      end
    end
  end
end
