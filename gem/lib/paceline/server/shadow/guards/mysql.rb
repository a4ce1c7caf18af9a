# frozen_string_literal: true

require_relative "library"

# MySQL and MariaDB by the gems mysql2 and trilogy, with ActiveRecord and without it (Sequel): statements that only read are sent. Any other is noted as a
# write, and refused. Nothing at all is sent on a connection from before the fork: it is the preloader's, and two voices would get each other's answers.
module Paceline
  module Server
    module Shadow
      class Guards
        module MySQL
          # What stands before a statement. A comment that MySQL executes is none.
          LEADING = %r{\A(?:\s|\(|/\*(?!M?!).*?\*/|--[^\n]*(?:\n|\z)|\#[^\n]*(?:\n|\z))*}m
          READING = /\G(?:SELECT|SHOW|DESCRIBE|DESC|EXPLAIN|VALUES|TABLE|WITH|USE|SET|BEGIN|START|COMMIT|ROLLBACK|SAVEPOINT|RELEASE)\b/i
          # What writes, locks, or changes others' settings, though it begins like the ones above.
          WRITING = /\bINTO\s+(?:OUTFILE|DUMPFILE)\b|\bFOR\s+UPDATE\b[^'"]*\z/i
          OF_ALL = /\b(?:GLOBAL|PERSIST|PERSIST_ONLY|PASSWORD)\b/i
          CHANGING = /\b(?:INSERT|UPDATE|DELETE|REPLACE)\b/i
          # Here these are texts, and no names.
          DOUBLE_QUOTED = /"(?:[^"\\]|\\.|"")*"?/m
          REFUSAL = "a shadow of paceline doctor does not write"
          private_constant :LEADING, :READING, :WRITING, :OF_ALL, :CHANGING, :DOUBLE_QUOTED

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

            def reads?(sql)
              sql = sql.b
              start = sql.match(LEADING).end(0)
              word = sql.match(READING, start)&.to_s&.upcase
              return false if word.nil? || sql.match?(WRITING)

              case word
              when "SET" then !sql.match?(OF_ALL)
              when "WITH", "EXPLAIN" then !sql.match?(CHANGING)
              else true
              end
            end
          end
        end
      end
    end
  end
end
