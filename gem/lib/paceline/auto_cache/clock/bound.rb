# frozen_string_literal: true

# A time of the clock in a statement (`where("published_at <= ?", Time.current)`): the page is good until the next row's time, for which the database is
# asked. Any write to the table drops the page besides. Only where the time is compared with a column of a table, in a form that is known to the
# letter; else the page is refused, since nobody knows what became of the time.
module Paceline
  module AutoCache
    module Clock
      module Bound
        # One token each: a text, a quoted name, a parameter, a word, an operator.
        TOKEN = /'(?:[^']|'')*'|"(?:[^"]|"")*"|\$\d+|[A-Za-z_]\w*|\d[\w.]*|<=|>=|<>|!=|\|\||::|[^\s\w]/
        # What a text may hide in.
        UNKNOWN = %r{--|/\*|`|\bE'|\$\$|\bWITH\b}i
        COMPARED = %w[< <= > >=].freeze
        BEFORE = %w[WHERE AND OR NOT ON (].freeze
        VALUE = /\A(?:'.*'|\$\d+|\?|\d[\w.]*)\z/m
        AFTER = [nil, ")", "AND", "OR", "ORDER", "GROUP", "LIMIT"].freeze
        # Behind the name of a table that has no other name.
        BEHIND = [nil, ")", "WHERE", "ORDER", "GROUP", "LIMIT", "INNER", "LEFT", "JOIN", "ON"].freeze
        # As Active Record writes it.
        TIME = /\A(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d(?:\.\d{1,6})?)\z/
        # Of a second, as it writes it.
        PRECISION = Rational(1, 1_000_000)
        # Frames of this library, before those of the caller.
        OWN = File.expand_path("..", __dir__)
        FRAMES = 20
        # A parameter of a statement.
        ATTRIBUTES = %r{/active_(?:model/attribute|record/relation/query_attribute)\.rb\z}
        private_constant :TOKEN, :UNKNOWN, :COMPARED, :BEFORE, :VALUE, :AFTER, :BEHIND, :TIME, :OWN, :FRAMES, :ATTRIBUTES

        # Active Record is there.
        def self.install
          ActiveRecord::ConnectionAdapters::AbstractAdapter.prepend(Quoting)
          ActiveModel::Type::Helpers::TimeValue.prepend(Precise)
          [Quoting, Precise].each { |hooks| Hooks.reading(hooks) }
        end

        class << self
          # A statement has run. `texts`: the times of the clock that were written as texts, with their marks.
          def ran(connection, sql, values, texts)
            texts.each do |text, marks|
              next unless sql.include?(text) || values.any? { |value| value.is_a?(String) && value.include?(text) }

              columns = columns(connection, sql, values, text)
              nexts = columns&.map { |table, column| after(connection, table, column, text) }
              if nexts.nil? || nexts.include?(false)
                marks.each(&:refuse)
              else
                # Each was written for one place.
                marks.reject(&:used?).first(columns.size).each(&:used!)
                nexts.compact.product(marks).each { |time, mark| mark.compare(time) }
              end
            end
          end

          # Active Record's cache of this request looks whether it has had the same statement. Its answer is what the database would say.
          def by_query_cache?
            frames = caller_locations(1, FRAMES).map { |frame| frame.absolute_path || frame.path }
            frames.find { |path| !path.start_with?(OWN) && !ATTRIBUTES.match?(path) }&.end_with?("/active_record/connection_adapters/abstract/query_cache.rb")
          end

          private

          # With which columns the text is compared, each with its table; nil: that is not known.
          def columns(connection, sql, values, text)
            return if UNKNOWN.match?(sql) || !sql.match?(/\A\s*SELECT\b/i)

            tokens = sql.scan(TOKEN)
            found = places(tokens, connection.adapter_name == "SQLite", values, text)
            literals = found.count { |at| tokens[at].start_with?("'") }
            # It stands nowhere else.
            return unless sql.scan(text).size == literals && values.all? { |value| !value.is_a?(String) || value == text || !value.include?(text) }
            return unless found.size - literals == values.count(text) && found.any?
            # Its AND joins no conditions.
            return unless tokens.each_index.all? { |at| !tokens[at].casecmp?("BETWEEN") || (between?(tokens, at + 2) && AFTER.include?(tokens[at + 4]&.upcase)) }

            all = found.map { |at| column(tokens, at) }
            all if all.all? { |table, column| table && connection.schema_cache.columns_hash(table)[column]&.type == :datetime }
          end

          # Where it stands, as a literal or a parameter.
          def places(tokens, counts_parameters, values, text)
            parameter = -1
            tokens.each_index.select do |at|
              token = tokens[at]
              if counts_parameters && token == "?" then values[parameter += 1] == text
              elsif !counts_parameters && token.match?(/\A\$\d+\z/) then values[token.delete_prefix("$").to_i - 1] == text
              else token == "'#{text}'"
              end
            end
          end

          # The column with which it is compared, as a condition of its own: `column <= text`, or `table.column BETWEEN text AND text`.
          def column(tokens, at)
            at = named(tokens, at) or return
            column = name(tokens[at])
            qualified = tokens[at - 1] == "."
            table = qualified ? name(tokens[at - 2]) : only_table(tokens)
            return unless column && table && BEFORE.include?(tokens[at - (qualified ? 3 : 1)]&.upcase)

            [table, column] if tables?(tokens, table)
          end

          # Where its name ends.
          def named(tokens, at)
            before, last =
              if COMPARED.include?(tokens[at - 1]) then [1, at]
              elsif between?(tokens, at + 1) then [1, at + 2]
              elsif between?(tokens, at - 1) then [3, at]
              end
            at - before - 1 if before && at > before + 1 && AFTER.include?(tokens[last + 1]&.upcase)
          end

          # Whether the word AND there is one between two values.
          def between?(tokens, at)
            at > 2 && tokens[at - 2].casecmp?("BETWEEN") && tokens[at]&.casecmp?("AND") && VALUE.match?(tokens[at - 1]) && VALUE.match?(tokens[at + 1].to_s)
          end

          # Each mention of it is the table itself, and no other one's name.
          def tables?(tokens, table)
            named = tokens.each_index.select { |at| name(tokens[at]) == table && tokens[at + 1] != "." && tokens[at - 1] != "." }
            named.any? && named.all? { |at| at.positive? && %w[FROM JOIN].include?(tokens[at - 1].upcase) && BEHIND.include?(tokens[at + 1]&.upcase) }
          end

          def only_table(tokens)
            words = tokens.map(&:upcase)
            name(tokens[words.index("FROM") + 1]) if words.count("FROM") == 1 && words.count("SELECT") == 1 && !words.include?("JOIN")
          end

          def name(token)
            case token
            when /\A"([^"]+)"\z/ then Regexp.last_match(1)
            when /\A[a-z_]\w*\z/ then token
            end
          end

          # The next time in that column, or the same one; nil: there is none; false: it can't be known.
          def after(connection, table, column, text)
            # In PostgreSQL a statement that fails ends the transaction.
            return false if connection.transaction_open?

            column = connection.quote_column_name(column)
            sql = "SELECT CAST(MIN(#{column}) AS text) FROM #{connection.quote_table_name(table)} WHERE #{column} >= '#{text}'"
            found = connection.query_value(sql, "Paceline")
            return if found.nil?

            parts = TIME.match(found.to_s) or return false
            ::Time.utc(*parts.captures.first(5).map(&:to_i), parts[6].to_r).to_r
          rescue StandardError
            false
          end
        end

        # ActiveModel::Type::Helpers::TimeValue, for a time that becomes the value of a column.
        module Precise
          %i[apply_seconds_precision serialize serialize_cast_value].each do |name|
            define_method(name) do |value|
              return super(value) if Clock.idle? || !MARKS[value]

              Clock.precise(value, precision) { super(value) }
            end
          end
        end

        # Before ActiveRecord's adapters.
        module Quoting
          def quoted_date(value)
            return super if Clock.idle? || !MARKS[value]

            Clock.quoted(self, value) { super }
          end
        end
      end

      class << self
        # The block writes a value as the text of a statement.
        def quoted(connection, value, &call)
          mark = own(value)
          return yield if mark.nil? || mark.recording.quiet? || !known_database?(connection)

          text = mark.recording.quiet(&call)
          written = mark.floored(Bound::PRECISION)
          written ? mark.recording.bind_mark(text, written) : mark.refuse
          text
        end

        private

        # Texts in the order of time, and no hour that comes twice.
        def known_database?(connection)
          settings = ::ActiveRecord.respond_to?(:default_timezone) ? ::ActiveRecord : ::ActiveRecord::Base
          %w[SQLite PostgreSQL].include?(connection.adapter_name) && settings.default_timezone == :utc
        end
      end
    end
  end
end
