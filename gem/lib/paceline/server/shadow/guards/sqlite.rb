# frozen_string_literal: true

# Databases of SQLite, those of ActiveRecord and others: each connection reads only (PRAGMA query_only). Databases in memory are the process's own.
module Paceline
  module Server
    module Shadow
      class Guards
        module SQLite
          # What changes a file, or takes the guard away, without being a write to SQLite.
          PRAGMA = /\A\s*PRAGMA\s+(?:\w+\.)?(journal_mode|query_only|wal_checkpoint|application_id|incremental_vacuum)\b/i
          VACUUM = /\A\s*VACUUM\b/i
          # Rails 8 begins each transaction so, whether it writes or not: this alone would be a write.
          BEGIN_TO_WRITE = /\A\s*BEGIN\s+(?:IMMEDIATE|EXCLUSIVE)\b/i
          READ = /\A\s*(?:SELECT|PRAGMA|EXPLAIN)\b/i
          LAST = :paceline_shadow_sql
          private_constant :PRAGMA, :VACUUM, :BEGIN_TO_WRITE, :READ, :LAST

          # Before SQLite3::Database.
          module OfDatabase
            def initialize(*arguments, **options)
              if block_given?
                super { |database| yield SQLite.restrict(database) }
              else
                super
                SQLite.restrict(self)
              end
            end

            def prepare(sql, ...)
              super(SQLite.harmless(self, sql), ...)
            end

            def execute_batch2(sql, ...)
              super(SQLite.harmless(self, sql), ...)
            end
          end

          # Before SQLite3::ReadOnlyException.
          module Noting
            def initialize(*)
              super
              Guards.note("sql", SQLite.last)
            end
          end

          class << self
            def there?
              Guards.loaded?("SQLite3::Database") && Guards.loaded?("SQLite3::ReadOnlyException")
            end

            def install
              ::SQLite3::Database.prepend(OfDatabase)
              ::SQLite3::ReadOnlyException.prepend(Noting)
              ObjectSpace.each_object(::SQLite3::Database).reject(&:closed?).each { |database| restrict(database) }
            end

            # Returns the database.
            def restrict(database)
              return database if Guards.off? || in_memory?(database)

              Guards.unguarded { database.execute_batch("PRAGMA query_only = ON") }
              database.instance_variable_set(:@paceline_reads_only, true)
              database
            end

            # What to run instead of `sql`.
            def harmless(database, sql)
              return sql if Guards.off? || !database.instance_variable_get(:@paceline_reads_only)

              Thread.current.thread_variable_set(LAST, sql)
              if sql.match?(VACUUM)
                Guards.note("sql", sql)
                raise ::SQLite3::ReadOnlyException, "a shadow does not write"
              end
              return sql.sub(BEGIN_TO_WRITE, "BEGIN") if sql.match?(BEGIN_TO_WRITE)

              name = sql[PRAGMA, 1] or return sql
              "PRAGMA #{name == "wal_checkpoint" ? "journal_mode" : name}"
            end

            # The statement that was just refused, as far as it is known.
            def last
              sql = Thread.current.thread_variable_get(LAST).to_s
              sql.empty? || sql.match?(READ) ? "a statement that writes to a database of SQLite" : sql
            end

            private

            def in_memory?(database)
              database.respond_to?(:filename) && database.filename.to_s.empty?
            end
          end
        end
      end
    end
  end
end
