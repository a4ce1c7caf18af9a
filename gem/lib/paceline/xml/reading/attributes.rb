# frozen_string_literal: true

module Paceline
  module XML
    module Reading
      # What is wrong `at` so many bytes into the document.
      class Mistake < StandardError
        attr_reader :at

        def initialize(at, message)
          @at = at
          super(message)
        end
      end

      # A name or the like for a message: in quotes, and not more of it than anybody reads.
      def self.quoted(text)
        text.size > 60 ? "\"#{text[0, 60]}...\"" : "\"#{text}\""
      end

      # Names as XML 1.0 (2.3) and Namespaces in XML have them.
      module Names
        STARTS = "A-Za-z_\\u{C0}-\\u{D6}\\u{D8}-\\u{F6}\\u{F8}-\\u{2FF}\\u{370}-\\u{37D}\\u{37F}-\\u{1FFF}\\u{200C}-\\u{200D}" \
                 "\\u{2070}-\\u{218F}\\u{2C00}-\\u{2FEF}\\u{3001}-\\u{D7FF}\\u{F900}-\\u{FDCF}\\u{FDF0}-\\u{FFFD}\\u{10000}-\\u{EFFFF}"
        CONTINUES = "\\-.0-9\\u{B7}\\u{300}-\\u{36F}\\u{203F}-\\u{2040}"
        NCNAME = "[#{STARTS}][#{STARTS}#{CONTINUES}]*+"
        NAME_WITH_COLONS = "[:#{STARTS}][:#{STARTS}#{CONTINUES}]*+"
        QUALIFIED = /\A(?:(#{NCNAME}):)?(#{NCNAME})\z/
        XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"

        private

        def wrong(at, message)
          raise Mistake.new(at, message)
        end

        # The prefix of a name, or nil, and the rest.
        def qualified(name, at)
          found = QUALIFIED.match(name) or wrong(at, "#{Reading.quoted(name)} is no name with a prefix")
          [found[1], found[2]]
        end
      end

      # The attributes within a tag, and the like ones of the XML declaration, one after the other. `text` stands at `start`; they
      # begin `from` bytes into it.
      class Attributes
        include Names

        def initialize(text, from, start)
          @scanner, @start = StringScanner.new(text), start
          @scanner.pos = from
        end

        # Name, raw value, and where they stand; nil after the last.
        def next
          return if @scanner.eos?

          space = @scanner.skip(/[ \t\r\n]+/)
          return if @scanner.eos?

          wrong(here, "white space is missing before an attribute, or this is no name") unless space
          at = here
          name = @scanner.scan(/#{NAME_WITH_COLONS}/o) || wrong(at, "this is no name of an attribute")
          @scanner.skip(/[ \t\r\n]+/)
          @scanner.skip(/=/) || wrong(here, "\"=\" is missing after attribute #{Reading.quoted(name)}")
          @scanner.skip(/[ \t\r\n]+/)
          value, value_at = value(name)
          [name, value, at, value_at]
        end

        private

        # The value, and where it stands.
        def value(name)
          at = here
          quote = @scanner.scan(/["']/) || wrong(at, "a quote is missing before the value of attribute #{Reading.quoted(name)}")
          value = @scanner.scan(quote == '"' ? /[^"]*+/ : /[^']*+/)
          @scanner.skip(/["']/) || wrong(at, "there is no end to the value of attribute #{Reading.quoted(name)}")
          if (found = value.index("<"))
            wrong(at + 1 + value[0, found].bytesize, "\"<\" in the value of attribute #{Reading.quoted(name)}")
          end
          [value, at + 1]
        end

        def here
          @start + @scanner.pos
        end
      end
    end
  end
end
