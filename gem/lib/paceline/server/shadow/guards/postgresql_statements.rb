# frozen_string_literal: true

# Which statements only read, as far as PostgreSQL's own read-only transactions leave that open: they refuse changes of tables, but not a change of the mode
# itself, notifications, locks, signals to other sessions, files of the server, and upkeep. It reads text, and asks no server.
require "strscan"

module Paceline
  module Server
    module Shadow
      class Guards
        module PostgreSQLStatements
          READING = %w[SELECT WITH VALUES TABLE SHOW EXPLAIN BEGIN START COMMIT END ROLLBACK ABORT SAVEPOINT RELEASE SET RESET DISCARD DECLARE FETCH MOVE CLOSE PREPARE
                       EXECUTE DEALLOCATE LISTEN UNLISTEN COPY].freeze
          ENDING, SETTING = %w[COMMIT END ROLLBACK ABORT].freeze, %w[BEGIN START SET RESET PREPARE COMMIT ROLLBACK].freeze
          # Another mode, an end in two steps, and what becomes of a name.
          MODE = /\bread\s+write\b|transaction_read_only|\A(?:PREPARE\s+TRANSACTION|COMMIT\s+PREPARED|ROLLBACK\s+PREPARED)\b/i
          # Where COPY has it, within no parentheses.
          COPIED = /\ACOPY\b[^()]*(?<open>\((?:[^()]|\g<open>)*\))?[^()]*?\bTO\s+STDOUT\b/i
          # Functions that lock, signal, notify, or write what is no table's. Those with lo_ are of large objects; those of XML, text search and pivots run the text
          # that they are given.
          CALLS = /\b(?:pg_(?:try_)?advisory\w*|pg_(?:terminate|cancel)_backend|pg_reload_conf|pg_rotate_logfile\w*|pg_switch_wal|pg_create_\w+|pg_drop_\w+|pg_copy_\w+|pg_promote|
                    pg_(?:start|stop)_backup|pg_backup_\w+|pg_wal_replay_\w+|pg_notify|pg_stat_\w*reset\w*|pg_stat_clear\w*|pg_logical_\w+|pg_replication_\w+|pg_log_\w+|
                    pg_import_\w+|pg_file_\w+|pg_extension_config_dump|lo_\w+|locreat\w*|lowrite|lounlink|loimport|loexport|lotruncate|dblink\w*|postgres_fdw_disconnect\w*|
                    (?:query|cursor|table|schema|database)_to_xml\w*|ts_stat|ts_rewrite|crosstab\w*|connectby|xpath_table|
                    brin_(?:de)?summarize\w*|gin_clean_pending_list|pg_(?:set|restore|clear)_(?:relation|attribute|extended)_stats|pg_truncate_visibility_map|
                    heap_force_\w+|pg_nextoid|binary_upgrade_\w+)"?\s*\(/xi
          # Stands for a name that is written with escapes (U&""), and for a text with backslashes that goes on after a line's end.
          UNREADABLE = "\0"
          HIDDEN_NAME = /[uU]&"(?:[^"]|"")*"/
          SPACE = /(?:\s|--[^\n\r]*)+/
          NAME = /"((?:[^"]|"")*)"/
          # What can't be part of a word, so that no name is taken for words.
          BETWEEN_WORDS = /[^\w$\u0080-\u{10ffff}]/
          TEXT = /'(?:[^']|'')*'?/
          # Where a backslash hides what comes after it.
          ESCAPED = /[eE]'(?:[^'\\]|\\.|'')*'?/m
          BARE_ESCAPED = /'(?:[^'\\]|\\.|'')*'?/m
          DOLLARS = /\$([A-Za-z_\u0080-\u{10ffff}][\w\u0080-\u{10ffff}]*)?\$/
          WORD = /[A-Za-z_\u0080-\u{10ffff}][\w$\u0080-\u{10ffff}]*/
          private_constant(*constants(false))

          class << self
            # What of `sql` is not let through, as "LOCK"; nil: it only reads. `backslashes`: whether they hide what comes after them in each text.
            def refused(sql, backslashes: false)
              statements = split(sql, backslashes)
              statements.each_with_index do |statement, index|
                word = statement[/\A[(\s]*(\w+)/, 1].to_s.upcase
                return word unless READING.include?(word)
                return "#{word} of another mode" if SETTING.include?(word) && statement.match?(MODE)
                return "#{word} with names of escapes" if statement.include?(UNREADABLE)
                return "COPY" if word == "COPY" && !statement.match?(COPIED)
                return "#{word} before other statements" if ENDING.include?(word) && index < statements.size - 1 && !statement.match?(/\bTO\b/i)
                return refused(statement[/\bAS\b(.*)\z/mi, 1].to_s) || next if word == "PREPARE"

                call = statement[CALLS] and return "the function #{call.delete('("').strip}"
              end
              nil
            end

            # Its statements without comments and texts.
            def split(sql, backslashes = false)
              scanner = StringScanner.new(sql.dup.force_encoding(Encoding::UTF_8).scrub("?"))
              statements = [+""]
              until scanner.eos?
                if scanner.scan(SPACE) then statements.last << " "
                elsif scanner.scan(%r{/\*}) then skip_comment(scanner) and statements.last << " "
                elsif scanner.scan(/;/) then statements << +""
                elsif scanner.scan(HIDDEN_NAME) then statements.last << UNREADABLE
                elsif scanner.scan(NAME) then statements.last << "\"#{scanner[1].gsub(BETWEEN_WORDS, "_")}\""
                elsif scanner.scan(ESCAPED) then statements.last << (goes_on?(scanner) ? UNREADABLE : "''")
                elsif scanner.scan(backslashes ? BARE_ESCAPED : TEXT) then statements.last << "''"
                elsif scanner.scan(DOLLARS) then skip_text(scanner) and statements.last << "''"
                else statements.last << (scanner.scan(WORD) || scanner.getch)
                end
              end
              statements.map(&:strip).reject(&:empty?)
            end

            private

            # They may lie within each other.
            def skip_comment(scanner)
              depth = 1
              depth += scanner[0] == "/*" ? 1 : -1 while depth.positive? && scanner.skip_until(%r{/\*|\*/})
              scanner.terminate if depth.positive?
              true
            end

            # Whether the text has another part, in which backslashes hide what comes after them as well.
            def goes_on?(scanner)
              scanner.match?(%r{(?:\s|--[^\n\r]*|/\*.*?\*/)+'}m)
            end

            def skip_text(scanner)
              scanner.scan_until(/#{Regexp.escape(scanner[0])}/) || scanner.terminate
              true
            end
          end
        end
      end
    end
  end
end
