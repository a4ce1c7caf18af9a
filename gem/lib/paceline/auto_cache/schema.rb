# frozen_string_literal: true

# Tells the front what a database has: tables, columns, views, triggers, foreign keys, in the form of wire.rs. Reads the
# catalogue through the connection of Active Record, once; changes nothing. Anything that it can't tell narrows nothing.
module Paceline
  module AutoCache
    class Schema
      # Of a column: what compares texts as bytes, or without case, or without spaces at the end.
      KNOWN_COLLATIONS = %w[BINARY NOCASE RTRIM].freeze

      def self.of(connection)
        case connection.adapter_name
        when /sqlite/i then SQLite.new(connection).to_wire
        when /postg/i then Postgres.new(connection).to_wire
        end
      end

      # Of the SQLite databases that Active Record knows by now.
      def self.files
        handler = ::ActiveRecord::Base.connection_handler
        pools = handler.connection_pool_list(:all)
        # Rails before 7.1.
        pools = handler.all_connection_pools if pools.empty? && handler.respond_to?(:all_connection_pools)
        names = pools.map(&:db_config).select { |config| config.adapter.to_s.start_with?("sqlite") }.map { |config| config.database.to_s }
        root = defined?(::Rails.root) && ::Rails.root ? ::Rails.root.to_s : Dir.pwd
        names.map { |name| File.expand_path(name, root) }.uniq.select { |path| File.file?(path) }
      end

      def initialize(connection)
        @connection = connection
        @out = String.new(encoding: ::Encoding::UTF_8)
      end

      def to_wire
        tell("D", dialect)
        tables
        others
        @out
      end

      private

      def tell(*fields)
        Encoding.append(@out, *fields)
      end

      def rows(sql)
        @connection.select_rows(sql, "SCHEMA")
      end

      # What an INSERT without the column stores: NULL, a number, a text; otherwise unknown.
      def default(text)
        case text
        when nil, /\ANULL\b/i then "n"
        when /\A-?\d{1,15}\z/ then "i#{text}"
        when /\A'([^'\\]*)'\z/ then Encoding.value(Regexp.last_match(1))
        else "?"
        end
      end

      class SQLite < Schema
        private

        def dialect = "sqlite"

        def tables
          # Without SQLite's own tables, which statements change that don't name them.
          @all = rows("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite~_%' ESCAPE '~'")
          @all.each do |type, name, _, sql|
            next unless type == "table"

            tell("T", name)
            # Virtual tables have shadows, and functions of their own.
            virtual = sql.match?(/\ACREATE VIRTUAL/i)
            collated = sql.match?(/\bCOLLATE\b(?!\s+["'`\[]?(?:#{KNOWN_COLLATIONS.join("|")})\b)/i)
            rows("PRAGMA table_xinfo(#{@connection.quote(name)})").each do |_, column, type_name, required, default, key, hidden|
              next tell("G") if hidden.to_i > 1
              next tell("N", column) if virtual || collated

              alone = key.to_i.positive? || required.to_i.positive? && default.nil?
              tell("C", column, type_name, alone ? "?" : default(default))
            end
          end
        end

        def others
          # A full-text index may show what another table has now (`content=posts`).
          @all.each do |_, name, _, sql|
            content = sql[/\ACREATE VIRTUAL\b.*?\bcontent\s*=\s*["'`\[]?(\w+)/im, 1]
            tell("V", name, "SELECT * FROM #{@connection.quote_column_name(content)}") if content
          end
          @all.each { |type, name, _, sql| tell("V", name, sql) if type == "view" }
          @all.each { |type, _, table, sql| tell("R", table, sql) if type == "trigger" }
          @all.each do |type, name,|
            next unless type == "table"

            rows("PRAGMA foreign_key_list(#{@connection.quote(name)})").each do |_, _, parent, _, _, update, delete|
              acts = [update, delete].map { |action| !["NO ACTION", "RESTRICT"].include?(action) }
              tell("X", parent, name, acts[0] ? "1" : "0") if acts.any?
            end
          end
        end
      end

      class Postgres < Schema
        private

        def dialect = "postgres"

        def tables
          columns = rows(<<~SQL).group_by(&:first)
            SELECT c.relname, a.attname, format_type(a.atttypid, NULL), t.typtype, a.attgenerated, pg_get_expr(d.adbin, d.adrelid),
                   coalesce(l.collisdeterministic, true), a.attidentity, a.attnotnull
            FROM pg_class c
            JOIN pg_namespace n ON n.oid = c.relnamespace
            LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            LEFT JOIN pg_type t ON t.oid = a.atttypid
            LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
            LEFT JOIN pg_collation l ON l.oid = a.attcollation
            WHERE c.relkind IN ('r', 'p', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
          SQL
          columns.each do |table, found|
            tell("T", table)
            found.each do |_, name, type, kind, generated, default, deterministic, identity, required|
              next unless name

              tell("G") unless generated.to_s.empty?
              next tell("N", name) unless deterministic

              alone = !identity.to_s.empty? || required && default.nil?
              tell("C", name, kind == "e" ? "text" : type, alone ? "?" : default(default&.sub(/::[\w ]+\z/, "")))
            end
          end
        end

        def others
          # What is in a foreign table another server writes, and says nothing.
          rows("SELECT relname FROM pg_class WHERE relkind = 'f'").each { |(name)| tell("V", name, "SELECT * FROM unknown(foreign)") }
          # A table that others inherit from (partitions, too) is read and written with them, and theirs. Views come after it.
          rows(<<~SQL).each { |parent, child| tell("V", parent, "SELECT * FROM #{@connection.quote_column_name(child)}") }
            SELECT p.relname, c.relname
            FROM (
              WITH RECURSIVE heirs(parent, child) AS (
                SELECT inhparent, inhrelid FROM pg_inherits
                UNION SELECT h.parent, i.inhrelid FROM heirs h JOIN pg_inherits i ON i.inhparent = h.child
              )
              SELECT parent, child FROM heirs
            ) h
            JOIN pg_class p ON p.oid = h.parent JOIN pg_class c ON c.oid = h.child
          SQL
          rows("SELECT viewname, definition FROM pg_views WHERE schemaname NOT IN ('pg_catalog', 'information_schema')").each { |view| tell("V", *view) }
          # The function's source, as far as it is SQL; another language's is no SQL that can be read, so it may do anything.
          rows(<<~SQL).each { |table, language, source| tell("R", table, language == "plpgsql" ? source : "unknown(#{language})") }
            SELECT c.relname, l.lanname, p.prosrc FROM pg_trigger t
            JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_language l ON l.oid = p.prolang
            WHERE NOT t.tgisinternal
          SQL
          rows(<<~SQL).each { |parent, child, update| tell("X", parent, child, update ? "1" : "0") }
            SELECT p.relname, c.relname, o.confupdtype NOT IN ('a', 'r') FROM pg_constraint o
            JOIN pg_class p ON p.oid = o.confrelid JOIN pg_class c ON c.oid = o.conrelid
            WHERE o.contype = 'f' AND (o.confdeltype NOT IN ('a', 'r') OR o.confupdtype NOT IN ('a', 'r'))
          SQL
          # A rule rewrites what a statement says.
          rows("SELECT DISTINCT tablename FROM pg_rules WHERE schemaname NOT IN ('pg_catalog', 'information_schema')").each { |(table)| tell("R", table, "unknown(rule)") }
        end
      end
    end
  end
end
