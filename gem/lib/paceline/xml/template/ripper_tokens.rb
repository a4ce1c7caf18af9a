# frozen_string_literal: true

require "ripper"

module Paceline
  module XML
    module Template
      # A token of Ripper's: `start` and `finish` are byte offsets into what was parsed, `closing` is the index of the token that ends
      # what this one begins, if it begins something.
      Token = Struct.new(:type, :text, :start, :finish, :state, :closing) do
        def blank?
          RipperTokens::BLANK.include?(type)
        end
      end

      # The tokens of a text in their order, each bracket and each keyword with the one that closes it.
      class RipperTokens
        BLANK = %i[sp nl ignored_nl comment embdoc_beg embdoc embdoc_end].freeze
        LITERALS = %i[tstring_beg regexp_beg backtick qwords_beg words_beg qsymbols_beg symbols_beg].freeze
        OPENING = { lparen: :rparen, lbracket: :rbracket, lbrace: :rbrace, tlambeg: :rbrace, embexpr_beg: :embexpr_end }.freeze
        LITERAL_ENDS = %i[tstring_end label_end regexp_end].freeze
        CLOSING = (OPENING.values + LITERAL_ENDS).freeze
        WITH_END = %w[if unless while until for case begin do].freeze
        # The state after `if`, `unless`, `while` and `until` when they modify the statement before.
        MODIFIER = Ripper::EXPR_BEG | Ripper::EXPR_LABEL
        private_constant :LITERALS, :OPENING, :LITERAL_ENDS, :CLOSING, :WITH_END, :MODIFIER

        # `tokens` are [type, text, line, column, state].
        def initialize(text, tokens)
          starts = [0]
          text.b.each_line { |line| starts << (starts.last + line.bytesize) }
          @tokens = tokens.map do |type, token, line, column, state|
            start = starts[line - 1] + column
            Token.new(type, token, start, start + token.bytesize, state.to_i)
          end
          @tokens.sort_by!.with_index { |token, index| [token.start, index] }
          @index = @tokens.each_with_index.to_h { |token, index| [token.start, index] }
          @at = ->(line, column) { starts[line - 1] + column }
          pair
        end

        def [](index)
          @tokens[index]
        end

        # The index of the token at this place, as Ripper tells it.
        def index_at((line, column))
          @index.fetch(@at.call(line, column))
        end

        # The next token from `index` on that is no space.
        def after(index)
          index += 1
          index += 1 while @tokens[index]&.blank?
          index
        end

        # The last one before `index` that is no space.
        def before(index)
          index -= 1
          index -= 1 while index.positive? && @tokens[index].blank?
          index
        end

        # The pieces of the tokens `range` between its own commas, each as a Range of indexes without space around it; a comma at the
        # end has nothing behind it.
        def pieces(range)
          pieces = []
          from = index = range.begin
          while index <= range.end
            if @tokens[index].type == :comma
              pieces << trim(from, index - 1)
              from = index + 1
            end
            index = (@tokens[index].closing || index) + 1
          end
          last = trim(from, range.end)
          pieces << last unless last.none? && pieces.any?
          pieces
        end

        def trim(from, to)
          from += 1 while from <= to && @tokens[from].blank?
          to -= 1 while to >= from && @tokens[to].blank?
          from..to
        end

        # Whether one of the tokens has this type.
        def any?(range, type)
          range.any? { |index| @tokens[index].type == type }
        end

        private

        # Finds the end of all that has one. Raises Reader::Unreadable where it does not add up.
        def pair
          open = []
          @tokens.each_with_index do |token, index|
            if opens?(token, open)
              open << index
            elsif closes?(token)
              raise Reader::Unreadable unless open.any? && fits?(@tokens[open.last], token)

              @tokens[open.pop].closing = index
              # A lambda ends with its body, not with its parameters.
              @tokens[open.pop].closing = index if token.type != :rparen && open.any? && @tokens[open.last].type == :tlambda
            elsif %i[nl semicolon].include?(token.type)
              header_over(open)
            end
          end
          raise Reader::Unreadable unless open.empty?
        end

        def opens?(token, open)
          case token.type
          when *OPENING.keys, *LITERALS, :tlambda then true
          when :symbeg then token.text != ":"
          when :kw then keyword_opens?(token, open)
          end
        end

        # `do` after the condition of a loop begins nothing of its own.
        def keyword_opens?(token, open)
          return false if token.state.anybits?(Ripper::EXPR_ENDFN) # a name: `:if`
          return true if token.text == "def"
          return false unless WITH_END.include?(token.text)
          return !header_over(open) if token.text == "do"
          return false if token.state == MODIFIER && %w[if unless while until].include?(token.text)

          (@headers ||= {}.compare_by_identity)[token] = true if %w[while until for].include?(token.text)
          true
        end

        # The condition of the loop that was begun last is complete. False if there was none.
        def header_over(open)
          open.any? && @headers&.delete(@tokens[open.last])
        end

        def closes?(token)
          CLOSING.include?(token.type) || (token.type == :kw && token.text == "end" && token.state.nobits?(Ripper::EXPR_ENDFN))
        end

        def fits?(opening, closing)
          return closing.type == :kw if opening.type == :kw
          return LITERAL_ENDS.include?(closing.type) unless OPENING.key?(opening.type)

          OPENING[opening.type] == closing.type
        end
      end
    end
  end
end
