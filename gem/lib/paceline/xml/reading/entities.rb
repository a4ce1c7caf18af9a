# frozen_string_literal: true

module Paceline
  module XML
    module Reading
      # References in text and in values of attributes. What entities come to is bounded: by depth, and by the bytes that are read for
      # them in the whole document.
      class Entities
        include Names

        PREDEFINED = { "lt" => "<", "gt" => ">", "amp" => "&", "quot" => '"', "apos" => "'" }.freeze
        REFERENCE = /&(#[A-Za-z0-9]*+|#{NAME_WITH_COLONS});/
        DEPTH = 16
        LONE = "\"&\" that begins no reference"
        private_constant :PREDEFINED, :DEPTH

        # The character that `number`, as it stands after `&#`, refers to; nil if there is none.
        def self.numbered(number)
          digits = number[/\A(?:x\h+|[0-9]+)\z/] or return
          code = digits.start_with?("x") ? digits[1..].to_i(16) : digits.to_i
          [code].pack("U") if [9, 10, 13].include?(code) || [0x20..0xD7FF, 0xE000..0xFFFD, 0x10000..0x10FFFF].any? { |range| range.cover?(code) }
        end

        def initialize(expansion)
          @declared = {}
          @left = [expansion, 1 << 28].min
        end

        # The first declaration of a name counts. `text` is nil for an entity that lies elsewhere, from where nothing is ever fetched.
        def declare(name, text)
          @declared[name] = text unless @declared.key?(name)
        end

        # `raw`, which stands at `at`, without its references and with line ends as they are meant.
        def unescape(raw, at)
          return raw unless raw.match?(/[&\r]/)

          scanner = StringScanner.new(raw)
          text = +""
          until scanner.eos?
            here = at + scanner.pos
            if (plain = scanner.scan(/[^&\r]++/)) then text << plain
            elsif scanner.skip(/\r\n?/) then text << "\n"
            elsif scanner.skip(REFERENCE) then text << resolve(scanner[1], here)
            else wrong(here, LONE)
            end
          end
          text
        end

        # What `&inner;` stands for, which stands at `at`.
        def resolve(inner, at, depth = 0)
          return Entities.numbered(inner[1..]) || wrong(at, Entities.bad(inner)) if inner.start_with?("#")
          return PREDEFINED[inner] if PREDEFINED.key?(inner)

          wrong(at, LONE) unless inner.match?(/\A#{NAME_WITH_COLONS}\z/o)
          error = ->(what) { wrong(at, "entity #{Reading.quoted(inner)} #{what}") }
          error["is not declared"] unless @declared.key?(inner)
          text = @declared[inner] || error["lies outside of the document, where nothing is fetched"]
          error["holds itself, or entities more than #{DEPTH} deep"] if depth == DEPTH
          error["makes the document grow beyond its limit"] if (@left -= text.bytesize + 1).negative?
          error["holds markup, which is not read"] if text.include?("<")
          expand(text, at, depth)
        end

        def self.bad(inner)
          "reference to no character: #{Reading.quoted("&#{inner};")}"
        end

        private

        def expand(text, at, depth)
          return text unless text.include?("&")

          scanner = StringScanner.new(text)
          result = +""
          until scanner.eos?
            if (plain = scanner.scan(/[^&]++/)) then result << plain
            elsif scanner.skip(REFERENCE) then result << resolve(scanner[1], at, depth + 1)
            else wrong(at, LONE)
            end
          end
          result
        end
      end
    end
  end
end
