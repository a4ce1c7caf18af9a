# frozen_string_literal: true

# In which database a generated application keeps its records, and what differs from one to the other. Makes text only.
module Bench
  module Generated
    class Sqlite
      def name = "sqlite"
      def sql(text) = text

      # Of ActiveRecord, as {name => an expression}. ROOT: one that gives the application's folder.
      def connection(root) = { adapter: "\"sqlite3\"", database: "File.join(#{root}, \"db/production.sqlite3\")" }

      # Opens `database`.
      def opening
        <<~RUBY
          require "sqlite3"
          database = SQLite3::Database.new("db/production.sqlite3")
          # Rails from 7.1 on sets this by itself, which would change the file at the first request.
          database.execute("PRAGMA journal_mode = WAL") if Gem::Specification.find_by_name("activerecord").version >= Gem::Version.new("7.1")
          run = ->(sql) { database.execute_batch(sql) }
        RUBY
      end

      # Fills a table.
      def insert
        <<~RUBY
          insert = lambda do |table, count, columns, &row|
            statement = database.prepare("INSERT INTO \#{table} VALUES (\#{(["?"] * columns).join(", ")})")
            count.times { |i| statement.execute([i + 1, *row.call(i)]) }
            statement.close
          end
        RUBY
      end
    end

    # The server is named by PGHOST and PGUSER. Each folder has a database of its own.
    class Postgresql
      NAME = "%s.split(\"/\").last(2).join(\"_\").tr(\"-\", \"_\")"

      def name = "postgresql"
      def sql(text) = text.gsub("DATETIME", "TIMESTAMP")
      def connection(root) = { adapter: "\"postgresql\"", database: format(NAME, root), host: "ENV.fetch(\"PGHOST\")", username: "ENV.fetch(\"PGUSER\")" }

      def opening
        <<~RUBY
          require "pg"
          name = #{format(NAME, "Dir.pwd")}
          PG.connect(dbname: "postgres") { |server| server.exec("CREATE DATABASE \#{name}") }
          database = PG.connect(dbname: name)
          run = ->(sql) { database.exec(sql) }
        RUBY
      end

      def insert
        <<~RUBY
          insert = lambda do |table, count, _, &row|
            database.copy_data("COPY \#{table} FROM STDIN") do
              count.times { |i| database.put_copy_data([i + 1, *row.call(i)].map { |value| value.nil? ? "\\\\N" : value }.join("\\t") << "\\n") }
            end
          end
        RUBY
      end
    end
  end
end
