# frozen_string_literal: true

require_relative "../connection_pools"

# SQLite databases of ActiveRecord on copies below the shadow's temporary folder: as they are ("database_copy", the control), or with one more index
# ("index"). The databases themselves are only read.
module Paceline
  module Server
    module Shadow
      module Patches
        module DatabaseCopy
          # A larger database (bytes) is not copied.
          MAX_BYTES = 2 << 30
          # So long a writer of the database is waited for (ms), and so many pages are copied at a time.
          PATIENCE = 5_000
          PAGES = 10_000
          private_constant :MAX_BYTES, :PATIENCE, :PAGES

          class << self
            def apply(_params, shadow)
              copies = copy_all(shadow)
              use(copies)
            end

            # {pool of connections => [the database, its copy]} of all that are files.
            def copy_all(shadow)
              raise Inapplicable, "the application does not use ActiveRecord" unless defined?(::ActiveRecord::Base)

              files = pools.to_h { |pool| [pool, file_of(pool)] }.compact
              raise Inapplicable, "the application has no SQLite database in a file" if files.empty?

              large = files.values.find { |file| File.size(file) > MAX_BYTES }
              raise Inapplicable, "#{large} has #{File.size(large) >> 20} MB, which is too much to copy" if large

              copies = files.values.uniq.each_with_index.to_h { |file, number| [file, copy(file, shadow.tmpdir, number)] }
              files.transform_values { |file| [file, copies[file]] }
            end

            # From here on connections lead to the copies.
            def use(copies)
              copies.each do |pool, (_, copy)|
                pool.disconnect!
                pool.db_config._database = copy
              end
            end

            private

            def pools
              ConnectionPools.all.select { |pool| pool.db_config.adapter.to_s == "sqlite3" && pool.db_config.respond_to?(:_database=) }
            end

            # Nil: it is in memory.
            def file_of(pool)
              rows = pool.with_connection { |connection| connection.exec_query("PRAGMA database_list", "SCHEMA", []).to_a }
              file = rows.find { |row| row["name"] == "main" }&.fetch("file").to_s
              file unless file.empty?
            end

            # With all that was committed, also what is only in its -wal yet.
            def copy(file, tmpdir, number)
              folder = File.join(tmpdir, "databases")
              Dir.mkdir(folder, 0o700) unless File.directory?(folder)
              copied = File.join(folder, "#{number}-#{File.basename(file)}")
              from = ::SQLite3::Database.new(file, readonly: true)
              from.busy_timeout(PATIENCE)
              to = ::SQLite3::Database.new(copied)
              back_up(from, to)
              to.execute("PRAGMA journal_mode = #{from.get_first_value("PRAGMA journal_mode")}")
              copied
            ensure
              [from, to].each { |database| database&.close }
            end

            def back_up(from, to)
              backup = ::SQLite3::Backup.new(to, "main", from, "main")
              nil until backup.step(PAGES) == ::SQLite3::Constants::ErrorCode::DONE
              backup.finish
            end
          end
        end

        module Index
          NAME = "paceline_doctor"
          private_constant :NAME

          # `table`; `columns`: of the index, in their order.
          def self.apply(params, shadow)
            table, columns = params["table"].to_s, Array(params["columns"]).map(&:to_s)
            raise Inapplicable, "no table and columns are named" if table.empty? || columns.empty?

            copies = DatabaseCopy.copy_all(shadow)
            made = copies.values.map(&:last).uniq.select { |copy| make(copy, table, columns) }
            raise Inapplicable, "no SQLite database has a table #{table} with #{columns.join(", ")}" if made.empty?

            DatabaseCopy.use(copies)
          end

          # False: the table or a column is not there.
          def self.make(copy, table, columns)
            database = ::SQLite3::Database.new(copy)
            # A shadow makes each connection read-only.
            database.execute("PRAGMA query_only = OFF")
            # A large one is sorted in a file otherwise, in a folder that is kept from shadows.
            database.execute("PRAGMA temp_store = MEMORY")
            known = database.table_info(table).map { |column| column["name"] }
            return false unless (columns - known).empty?

            database.execute("CREATE INDEX #{quoted(NAME)} ON #{quoted(table)} (#{columns.map { |column| quoted(column) }.join(", ")})")
            true
          ensure
            database&.close
          end

          def self.quoted(name)
            "\"#{name.gsub("\"", "\"\"")}\""
          end
          private_class_method :make, :quoted
        end
      end
    end
  end
end
