# frozen_string_literal: true

# Databases of SQLite, those of ActiveRecord and others: each connection reads only (PRAGMA query_only). Databases in memory are the process's own.
module Paceline
  module Server
    module Shadow
      class Guards
        module SQLite
          # What changes a file, or takes the guard away, without being a write to SQLite.
          PRAGMA = /\A[\s;]*PRAGMA\s+(?:["'\[`]?\w+["'\]`]?\s*\.\s*)?["'\[`]?(journal_mode|query_only|wal_checkpoint|application_id|incremental_vacuum)\b/i
          VACUUM = /\A[\s;]*VACUUM\b/i
          # Behind another statement: what is run as a batch by the library itself is looked at only here.
          BEHIND = /;.*\b(?:PRAGMA|VACUUM)\b/mi
          COMMENT = %r{--[^\n]*|/\*.*?(?:\*/|\z)}m
          # What is no comment though it looks like one.
          QUOTED = /'(?:[^']|'')*'?|"(?:[^"]|"")*"?|`[^`]*`?|\[[^\]]*\]?/m
          # Rails 8 begins each transaction so, whether it writes or not: this alone would be a write.
          BEGIN_TO_WRITE = /\A\s*BEGIN\s+(?:IMMEDIATE|EXCLUSIVE)\b/i
          READ = /\A\s*(?:SELECT|PRAGMA|EXPLAIN)\b/i
          JOURNAL_MODE = /\A[\s;]*PRAGMA\s+(?:\w+\.)?journal_mode\s*[=(]/i
          ATTACH = /\bATTACH\b/i
          IN_MEMORY = /\bATTACH\s+(?:DATABASE\s+)?'(?::memory:)?'/i
          LAST = :paceline_shadow_sql
          # Where a file says that it has its log of writes beside it, and what stands there then: the version for writing, and that for reading.
          WAL = [18, 2, "\x02\x02".b].freeze
          private_constant :PRAGMA, :VACUUM, :BEHIND, :COMMENT, :QUOTED, :BEGIN_TO_WRITE, :READ, :JOURNAL_MODE, :ATTACH, :IN_MEMORY, :LAST, :WAL

          # Before SQLite3::Database.
          module OfDatabase
            def initialize(file, *arguments, **options)
              SQLite.keep_index(file)
              if block_given?
                super { |database| yield SQLite.restrict(database) }
              else
                super
                SQLite.restrict(self)
              end
            end

            def execute_batch2(sql, ...)
              SQLite.refuse(sql) if SQLite.hides_another?(self, sql)
              super(SQLite.harmless(self, sql), ...)
            end
          end

          # Before SQLite3::Statement: each statement of a database is one, also where it was made without a method of the database.
          module OfStatement
            def initialize(database, sql, ...)
              super(database, SQLite.harmless(database, sql), ...)
            end
          end

          # Before SQLite3::Backup: pages are copied as they are, whatever the connection may write.
          module OfBackup
            def initialize(to, *)
              SQLite.refuse("a backup into a database of SQLite") if !Guards.off? && SQLite.reads_only?(to)
              super
            end
          end

          # Before SQLite3::ReadOnlyException, and that of files that can't be made.
          module Noting
            def initialize(*)
              super
              Guards.note("sql", SQLite.last)
            end
          end

          class << self
            def there?
              %w[Database Statement Backup ReadOnlyException CantOpenException].all? { |name| Guards.loaded?("SQLite3::#{name}") }
            end

            def install
              @kept = {}
              @mutex = Thread::Mutex.new
              ::SQLite3::Database.prepend(OfDatabase)
              ::SQLite3::Statement.prepend(OfStatement)
              ::SQLite3::ReadOnlyException.prepend(Noting)
              ::SQLite3::CantOpenException.prepend(Noting)
              ::SQLite3::Backup.prepend(OfBackup)
              ObjectSpace.each_object(::SQLite3::Database).reject(&:closed?).each { |database| restrict(database) }
            end

            # Readers of a database share an index of its log, a file beside it that they write to and make if it is not there. A connection that the kernel
            # does not confine keeps it, for all connections to this database. `file`: as it is opened.
            def keep_index(file)
              return if Confinement.outside? || !file.is_a?(String)
              return to_read(file) unless Confinement.files? || Guards.off?

              path = File.realpath(file)
              return if Files.admit?(path) || File.binread(path, WAL[1], WAL[0]) != WAL[2]

              @mutex.synchronize do
                @kept[path] ||= Confinement.outside { ::SQLite3::Database.new(path, readonly: true).tap { |database| database.execute("PRAGMA schema_version") } }
              end
            rescue Errno::EROFS
              raise
            rescue SystemCallError, ::SQLite3::Exception
              nil # there is no such file, or it is no database
            end

            # Returns the database.
            def restrict(database)
              return database if Guards.off? || in_memory?(database)

              # What is sorted goes to files otherwise.
              Guards.unguarded { database.execute_batch("PRAGMA query_only = ON; PRAGMA temp_store = MEMORY") }
              database.instance_variable_set(:@paceline_reads_only, true)
              database
            end

            def reads_only?(database)
              database.instance_variable_get(:@paceline_reads_only)
            end

            # Raises SQLite3::ReadOnlyException.
            def refuse(what)
              Guards.note("sql", what)
              raise ::SQLite3::ReadOnlyException, "a shadow does not write"
            end

            # Whether something behind the first statement would take the guard away.
            def hides_another?(database, sql)
              !Guards.off? && reads_only?(database) && without_comments(sql).match?(BEHIND)
            end

            # What to run instead of `sql`.
            def harmless(database, sql)
              return in_its_mode(database, sql) if Guards.off?

              Thread.current.thread_variable_set(LAST, sql)
              # A file that is not there would be made.
              refuse(sql) if sql.match?(ATTACH) && !Confinement.files? && !sql.match?(IN_MEMORY)
              attach(database, sql) unless reads_only?(database)
              return sql unless reads_only?(database)

              plain = without_comments(sql)
              refuse(sql) if plain.match?(VACUUM)
              return sql.sub(BEGIN_TO_WRITE, "BEGIN") if sql.match?(BEGIN_TO_WRITE)

              name = plain[PRAGMA, 1] or return sql
              "PRAGMA #{name == "wal_checkpoint" ? "journal_mode" : name}"
            end

            # The statement that was just refused, as far as it is known.
            def last
              sql = Thread.current.thread_variable_get(LAST).to_s
              sql.empty? || sql.match?(READ) ? "a statement that writes to a database of SQLite" : sql
            end

            private

            def without_comments(sql)
              sql = sql.b
              sql.match?(%r{--|/\*}) ? sql.gsub(Regexp.union(QUOTED, COMMENT)) { |found| found.start_with?("--", "/*") ? " " : found } : sql
            end

            # What Rails sets when it connects would change the file, also where the shadow connects for itself.
            def in_its_mode(database, sql)
              return sql if !sql.match?(JOURNAL_MODE) || in_memory?(database) || (database.respond_to?(:filename) && Files.own?(database.filename))

              "PRAGMA journal_mode"
            end

            # A file that is not there would be made.
            def to_read(file)
              Files.to_change(file) unless file.empty? || file.start_with?(":", "file:") || File.exist?(file)
            end

            # A database in memory is the process's own, but not what it may be joined with. `VACUUM INTO` makes a file.
            def attach(database, sql)
              plain = without_comments(sql)
              refuse(sql) if plain.match?(VACUUM) && plain.match?(/\bINTO\b/i)
              return unless sql.match?(ATTACH)

              Guards.unguarded { database.execute_batch("PRAGMA query_only = ON") }
              database.instance_variable_set(:@paceline_reads_only, true)
            end

            def in_memory?(database)
              database.respond_to?(:filename) && database.filename.to_s.empty?
            end
          end
        end
      end
    end
  end
end
