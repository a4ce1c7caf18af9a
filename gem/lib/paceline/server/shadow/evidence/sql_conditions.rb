# frozen_string_literal: true

require_relative "sql_shape"

# Which columns a query compares with values or with other columns so that an index could answer it. It reads SQL as ActiveRecord and people write
# it, without subqueries; what it does not understand counts for nothing.
module Paceline
  module Server
    module Shadow
      class Evidence
        class SqlConditions
          EQUAL = %w[= == IS IN].freeze
          RANGE = %w[> < >= <= BETWEEN].freeze
          # Words that end a clause of conditions.
          ENDS = %w[GROUP ORDER LIMIT HAVING UNION EXCEPT INTERSECT WINDOW RETURNING WHERE JOIN LEFT RIGHT INNER OUTER CROSS FULL NATURAL ON].freeze
          # Parentheses within each other that are looked into.
          MAX_DEPTH = 20
          Token = Struct.new(:kind, :text) do
            def word
              kind == :word ? text.upcase : text
            end

            # The name that it stands for, without its quotes; nil: none.
            def name
              return unless %i[name word].include?(kind)

              kind == :word ? text : text[1..-2].gsub(text[0] * 2, text[0])
            end
          end
          private_constant :EQUAL, :RANGE, :ENDS, :MAX_DEPTH, :Token

          def initialize(sql)
            tokens = SqlShape.tokens(sql, "sqlite3").reject { |kind, _| kind == :space }
            @tokens = tokens.map { |kind, text| Token.new(kind, text.dup.force_encoding(Encoding::UTF_8)) }
            @tables = find_tables
            @columns = find_columns
          end

          # The table that a name or an alias stands for, or nil.
          def table(name)
            @tables[name]
          end

          # Columns of the table that goes by this name: those that equal a value or are NULL, those that equal columns of other tables (`joined`: whether
          # these are read before), then one with a range. `known`: the table's columns.
          def columns(name, known, joined:)
            [*of(name, known, :equal, :null), *(of(name, known, :join) if joined), *of(name, known, :range).first(1)].uniq
          end

          # Of these the ones that equal a value.
          def equal(name, known)
            of(name, known, :equal).uniq
          end

          # Whether it asks for some of the rows only.
          def limited?
            @tokens.any? { |token| token.kind == :word && token.word == "LIMIT" }
          end

          # The columns that the rows of the table by this name are ordered by, all of them upwards or all of them downwards; nil: by something else, or by nothing.
          def order(name, known)
            from = @tokens.each_cons(2).find_index { |pair| pair.map(&:word) == %w[ORDER BY] } or return
            parts = clause(from + 2).slice_when { |token, _| token.text == "," }.map { |part| part.reject { |token| token.text == "," } }
            columns = parts.map { |part| ordered(part, name, known) }
            columns.map(&:first) if columns.all? && columns.map(&:last).uniq.size == 1
          end

          private

          # [column, "ASC" or "DESC"], or nil.
          def ordered(tokens, name, known)
            owner, column, rest = operand(tokens)
            way = rest&.first&.word || "ASC"
            [column, way] if column && rest.size <= 1 && %w[ASC DESC].include?(way) && (owner.nil? || owner == name) && known.include?(column)
          end

          def of(name, known, *kinds)
            wanted = @columns.select { |_, _, kind| kinds.include?(kind) }
            mine = wanted.select { |owner, column, _| owner ? owner == name : @tables.size == 1 && known.include?(column) }
            mine.map { |_, column, _| column }
          end

          # {name or alias => table}
          def find_tables
            found = {}
            @tokens.each_with_index do |token, index|
              next unless %w[FROM JOIN].include?(token.word) && token.kind == :word
              next unless (table = @tokens[index + 1]&.name)

              after = @tokens[index + 2]
              after = @tokens[index + 3] if after&.word == "AS"
              named = after&.name if after && !(after.kind == :word && (ENDS.include?(after.word) || %w[INDEXED NOT USING].include?(after.word)))
              found[named || table] = table
            end
            found
          end

          # [table or alias or nil, column, :equal, :null, :join or :range] of each condition that has to hold.
          def find_columns
            found = []
            @tokens.each_with_index do |token, index|
              next unless token.kind == :word && %w[WHERE ON].include?(token.word)

              found.concat(conditions(clause(index + 1)))
            end
            found
          end

          # From here to the end of the clause.
          def clause(from)
            depth = 0
            @tokens.drop(from).take_while do |token|
              depth += 1 if token.text == "("
              depth -= 1 if token.text == ")"
              depth >= 0 && !(depth.zero? && token.kind == :word && ENDS.include?(token.word))
            end
          end

          def conditions(tokens, depth = 0)
            return [] if depth > MAX_DEPTH
            return conditions(tokens[1..-2], depth + 1) if wrapped?(tokens)

            parts = split(tokens)
            return [] if parts.nil?
            return condition(parts.first) if parts.size == 1

            parts.flat_map { |part| conditions(part, depth + 1) }
          end

          # Whether one pair of parentheses is around all of it.
          def wrapped?(tokens)
            return false unless tokens.first&.text == "(" && tokens.last&.text == ")"

            depth = 0
            tokens.each_with_index do |token, index|
              depth += 1 if token.text == "("
              depth -= 1 if token.text == ")"
              return index == tokens.size - 1 if depth.zero?
            end
            false
          end

          # What AND joins; nil: there is an OR, which one index does not answer.
          def split(tokens)
            parts, depth, between = [[]], 0, false
            tokens.each do |token|
              depth += 1 if token.text == "("
              depth -= 1 if token.text == ")"
              word = depth.zero? && token.kind == :word ? token.word : nil
              return nil if word == "OR"

              between = true if word == "BETWEEN"
              if word == "AND" && !between
                parts << []
              else
                between = false if word == "AND"
                parts.last << token
              end
            end
            parts
          end

          def condition(tokens)
            owner, column, rest = operand(tokens)
            return turned(tokens) if column.nil?

            sign = rest.first&.word
            return [] if sign == "IS" && rest[1]&.word == "NOT"
            return [[owner, column, :null]] if sign == "IS" && rest[1]&.word == "NULL"

            kind = EQUAL.include?(sign) ? :equal : (:range if RANGE.include?(sign))
            return [] unless kind

            other_owner, other, = operand(rest.drop(1))
            return [[owner, column, kind]] unless other_owner

            kind == :equal ? [[owner, column, :join], [other_owner, other, :join]] : []
          end

          # A value on the left: `5 = beers.id`.
          def turned(tokens)
            return [] unless tokens[0]&.kind == :literal && (EQUAL + RANGE).include?(tokens[1]&.text)

            owner, column, rest = operand(tokens.drop(2))
            column && rest.empty? ? [[owner, column, EQUAL.include?(tokens[1].text) ? :equal : :range]] : []
          end

          # [table, column, what follows] if the condition begins with a column.
          def operand(tokens)
            first = tokens[0]&.name
            return if first.nil? || tokens[1]&.text == "("
            return [nil, first, tokens.drop(1)] unless tokens[1]&.text == "." && tokens[2]&.name

            [first, tokens[2].name, tokens.drop(3)]
          end
        end
      end
    end
  end
end
