# frozen_string_literal: true

module Paceline
  module XML
    module Reading
      # The document type declaration: its entities are kept, all else in it is passed over. Nothing outside of the document is asked
      # for, and parameter entities are refused where they are used.
      class Doctype
        include Names

        DOUBLE_HYPHEN = "\"--\" within a comment"
        PARAMETER = "references to parameter entities are not read"
        private_constant :PARAMETER

        # `scanner` stands before `<!DOCTYPE`.
        def initialize(scanner, entities)
          @scanner, @entities = scanner, entities
        end

        # Reads all of it.
        def read
          @scanner.skip(/<!DOCTYPE/)
          space
          name
          external if @scanner.skip(/[ \t\r\n]+/) && !@scanner.match?(/[\[>]/)
          skip_space
          if @scanner.skip(/\[/)
            subset
            skip_space
          end
          @scanner.skip(/>/) || bad("the document type declaration does not end here as it should")
        end

        private

        def subset
          loop do
            skip_space
            if @scanner.skip(/\]/) then return
            elsif @scanner.skip(/<!ENTITY/) then entity
            elsif @scanner.skip(/<!--/) then comment
            elsif @scanner.skip(/<\?/) then @scanner.skip_until(/\?>/) || bad("there is no end to a processing instruction")
            elsif @scanner.skip(/<!ELEMENT/) then @scanner.skip_until(/>/) || bad("there is no end to a declaration")
            elsif @scanner.skip(/<!(?:ATTLIST|NOTATION)/)
              @scanner.skip(/(?:[^>"']++|"[^"]*+"|'[^']*+')*+>/) || bad("there is no end to a declaration")
            elsif @scanner.match?(/%/) then bad(PARAMETER)
            else bad("the document type holds something that is no declaration")
            end
          end
        end

        def entity
          space
          parameter = @scanner.skip(/%/) && space
          name = name()
          space
          text = nil
          if @scanner.match?(/["']/)
            text = value
          else
            external
            if @scanner.skip(/[ \t\r\n]+/) && !parameter && @scanner.skip(/NDATA/)
              space
              name()
            end
          end
          skip_space
          @scanner.skip(/>/) || bad("\">\" is missing after the declaration of an entity")
          @entities.declare(name, text) unless parameter
        end

        # The value of an entity, in which references to characters are done at once.
        def value
          start = @scanner.pos + 1
          inner = StringScanner.new(literal)
          text = +""
          until inner.eos?
            at = start + inner.pos
            if (plain = inner.scan(/[^&%\r]++/)) then text << plain
            elsif inner.skip(/\r\n?/) then text << "\n"
            elsif inner.skip(/%/) then wrong(at, PARAMETER)
            elsif !inner.skip(Entities::REFERENCE) then wrong(at, Entities::LONE)
            elsif inner[1].start_with?("#") then text << (Entities.numbered(inner[1][1..]) || wrong(at, Entities.bad(inner[1])))
            else text << inner[0]
            end
          end
          text
        end

        # `SYSTEM "..."` or `PUBLIC "..." "..."`.
        def external
          if @scanner.skip(/PUBLIC/)
            space
            literal
          else
            @scanner.skip(/SYSTEM/) || bad("SYSTEM or PUBLIC is missing")
          end
          space
          literal
        end

        def comment
          start = @scanner.pos
          @scanner.skip_until(/--/) || bad("there is no end to a comment")
          @scanner.skip(/>/) || wrong(start, DOUBLE_HYPHEN)
        end

        def literal
          @scanner.match?(/["']/) || bad("a quote is missing")
          @scanner.skip(/"([^"]*+)"|'([^']*+)'/) || bad("there is no end to a quotation")
          @scanner[1] || @scanner[2]
        end

        def name
          @scanner.scan(/#{NAME_WITH_COLONS}/o) || bad("a name is missing in the document type declaration")
        end

        def space
          @scanner.skip(/[ \t\r\n]+/) || bad("white space is missing in the document type declaration")
        end

        def skip_space
          @scanner.skip(/[ \t\r\n]+/)
        end

        def bad(message)
          wrong(@scanner.pos, message)
        end
      end
    end
  end
end
