# frozen_string_literal: true

require "strscan"
require_relative "library"

# MySQL and MariaDB by the gems mysql2 and trilogy, with ActiveRecord and without it (Sequel): statements that only read are sent. Any other is noted as a
# write, and refused. Nothing at all is sent on a connection from before the fork: it is the preloader's, and two voices would get each other's answers.
module Paceline
  module Server
    module Shadow
      class Guards
        module MySQL
          READING = %w[SELECT SHOW DESCRIBE DESC EXPLAIN VALUES TABLE WITH USE SET BEGIN START COMMIT ROLLBACK SAVEPOINT RELEASE].freeze
          # What writes, or locks what others want, though it begins like the ones above.
          WRITING = /\bINTO\s+(?:OUTFILE|DUMPFILE)\b|\bFOR\s+(?:UPDATE|SHARE)\b|\bLOCK\s+IN\s+SHARE\s+MODE\b|\bNEXT\s+VALUE\s+FOR\b|
                     \b(?:GET_LOCK|RELEASE_LOCK|RELEASE_ALL_LOCKS|NEXTVAL|SETVAL)`?\s*\(/xi
          # What changes others' settings, or runs another statement.
          OF_ALL = /\b(?:GLOBAL|PERSIST|PERSIST_ONLY|PASSWORD)\b|\ASET\s+(?:STATEMENT|DEFAULT\s+ROLE|RESOURCE)\b/i
          CHANGING = /\b(?:INSERT|UPDATE|DELETE|REPLACE)\b/i
          # Of these words, what only begins a transaction: replication starts so as well, and so do blocks of statements.
          BEGINNING = /\A(?:BEGIN(?:\s+WORK)?\z|START\s+TRANSACTION\b)/i
          SPACE = %r{(?:\s|/\*(?!M?!).*?(?:\*/|\z)|--(?=\s|\z)[^\n]*|\#[^\n]*)+}m
          # Comments that a server runs, or not, by its version.
          RUN = %r{/\*M?!}
          # Texts and names: backslashes hide what comes after them, or with NO_BACKSLASH_ESCAPES nothing.
          QUOTED = { true => /'(?:[^'\\]|\\.|'')*'?|"(?:[^"\\]|\\.|"")*"?/mn, false => /'[^']*'?|"[^"]*"?/n }.freeze
          NAME = /`[^`]*`?/n
          # Here these are texts, and no names.
          DOUBLE_QUOTED = /"(?:[^"\\]|\\.|"")*"?/m
          REFUSAL = "a shadow of paceline doctor does not write"
          private_constant(*constants(false))

          # Before Mysql2::Client.
          module OfClient
            def query(sql, ...)
              MySQL.check(self, sql) { ::Mysql2::Error }
              super(sql, ...)
            end

            def prepare(sql, ...)
              MySQL.check(self, sql) { ::Mysql2::Error }
              super(sql, ...)
            end

            private

            def connect(...)
              Confinement.outside { super }
            end
          end

          # Before Trilogy.
          module OfTrilogy
            def initialize(...)
              Confinement.outside { super }
            end

            def query(sql, ...)
              MySQL.check(self, sql) { Errno::EROFS }
              super(sql, ...)
            end
          end

          # A guard that also knows the connections from before the fork.
          class Connections < Library
            def install
              super
              ObjectSpace.each_object(target) do |connection|
                connection.instance_variable_set(:@paceline_of_preloader, true)
                # No good-bye to the server when the object is collected.
                connection.automatic_close = false if connection.respond_to?(:automatic_close=)
              end
            end
          end

          ALL = [Connections.new("Mysql2::Client", OfClient, method: :query), Connections.new("Trilogy", OfTrilogy, method: :query)].freeze

          class << self
            # Notes a statement that is no read, and raises what the block gives.
            def check(connection, sql)
              return if Guards.off?
              raise yield, "this connection was opened before the shadow was forked" if connection.instance_variable_get(:@paceline_of_preloader)
              return if reads?(sql.to_s)

              Guards.note("sql", sql.to_s.dup.force_encoding(Encoding::UTF_8).scrub("?").gsub(DOUBLE_QUOTED, "?"))
              raise yield, REFUSAL
            end

            # In whichever mode the session reads it.
            def reads?(sql)
              sql = sql.b
              QUOTED.each_value.all? do |quoted|
                statements = split(sql, quoted)
                !statements.empty? && statements.all? { |statement| statement_reads?(statement) }
              end
            end

            private

            def statement_reads?(statement)
              word = statement[/\A[(\s]*(\w+)/, 1].to_s.upcase
              return false if !READING.include?(word) || statement.match?(RUN) || statement.match?(WRITING)

              case word
              when "SET" then !statement.match?(OF_ALL)
              when "BEGIN", "START" then statement.match?(BEGINNING)
              when "WITH", "EXPLAIN", "DESCRIBE", "DESC" then !statement.match?(CHANGING)
              else true
              end
            end

            # Its statements without comments and texts.
            def split(sql, quoted)
              scanner = StringScanner.new(sql)
              statements = [+""]
              until scanner.eos?
                if scanner.scan(RUN) then statements.last << scanner.matched
                elsif scanner.scan(SPACE) then statements.last << " "
                elsif scanner.scan(/;/) then statements << +""
                elsif scanner.scan(quoted) then statements.last << "''"
                elsif scanner.scan(NAME) then statements.last << scanner.matched.gsub(/[^\w`]/n, "_")
                else statements.last << (scanner.scan(/\w+/n) || scanner.getch)
                end
              end
              statements.map(&:strip).reject(&:empty?)
            end
          end
        end
      end
    end
  end
end
