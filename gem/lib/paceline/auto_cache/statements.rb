# frozen_string_literal: true

# What a statement may do, by its text alone: read, write, or begin and end a transaction. What is not plainly a read counts as a
# write; which rows it changes is decided by the front. Runs nothing, and knows no schema.
module Paceline
  module AutoCache
    module Statements
      # Query logs may put their comment first.
      COMMENTED = %r{\A(?>(?:\s|/\*.*?\*/|--[^\n]*\n)*)}m
      READS = /#{COMMENTED.source}(?:[(;]\s*)*(SELECT|SHOW|EXPLAIN|PRAGMA|VALUES|TABLE|SET|DECLARE|FETCH|CLOSE|DEALLOCATE|DISCARD)\b/im
      CONTROL = /#{COMMENTED.source}(BEGIN|START\s+TRANSACTION|COMMIT|END|ROLLBACK|ABORT|SAVEPOINT|RELEASE)\b(?:\s+(?:WORK|TRANSACTION))?(\s+TO\b)?(?:\s+SAVEPOINT)?\s*"?([^\s";]*)/im
      # From then on the transaction is no connection's, and any may commit it (COMMIT PREPARED).
      PREPARE = /#{COMMENTED.source}PREPARE\s+TRANSACTION\b/im
      # The front has to learn the schema once more: the verbs of its shape.rs, also behind another statement.
      SCHEMA = /(?:#{COMMENTED.source}|;\s*)(?:CREATE|ALTER|DROP|ATTACH|DETACH|REFRESH|GRANT|REVOKE|COMMENT)\b/im
      # In place of statements that are too many: anything is written. The second one says it of the schema, too.
      ANYTHING = %w[UNKNOWN ALTER].freeze

      # Texts, comments and quoted names.
      LITERALS = %r{/\*.*?\*/|--[^\n]*|\bE'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"[^"]*"}mi
      # What a parenthesis follows, with its schema.
      CALLS = /(?:(\w+)"?\s*\.\s*)?"?\b([a-z_]\w*)"?\s*\(/i
      # Functions that change no row, and words that a parenthesis may follow: the lists of the front's words.rs.
      KNOWN = %w[
        abs acos age all and any array array_agg array_append array_cat array_length array_position array_remove array_to_string
        array_upper as asin atan avg between bigint bit bit_and bit_or bool_and bool_or bpchar btrim by cardinality case cast ceil ceiling
        changes char char_length character character_length check chr clock_timestamp coalesce col_description concat concat_ws conflict
        corr cos count cross cube cume_dist current_database current_schema current_schemas current_setting currval date date_bin
        date_part date_trunc datetime decimal decode default degrees delete dense_rank distinct div do else encode end escape every except
        exists exp explain extract filter first_value float floor format format_type from full gen_random_bytes gen_random_uuid
        generate_series glob greatest group group_concat grouping having hex if ifnull iif ilike in index inet_client_addr initcap inner
        insert instr int integer intersect interval into is isnull join json json_agg json_array json_array_elements json_array_length
        json_build_array json_build_object json_each json_extract json_extract_path json_extract_path_text json_group_array
        json_group_object json_insert json_object json_object_agg json_patch json_quote json_remove json_replace json_set json_tree
        json_type json_typeof json_valid jsonb jsonb_agg jsonb_array_elements jsonb_array_elements_text jsonb_array_length
        jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text jsonb_exists jsonb_extract_path_text jsonb_object_agg
        jsonb_object_keys jsonb_set jsonb_typeof julianday key lag last_insert_rowid last_value lastval lateral lead least left length
        like likelihood likely limit ln localtime localtimestamp log log10 lower lpad ltrim make_date match materialized max md5 min mod
        mode natural nchar not nothing notnull now nth_value ntile null nullif numeric nvarchar obj_description octet_length of offset on
        only or order outer over overlay partition percent_rank percentile_cont percentile_disc pg_backend_pid pg_get_constraintdef
        pg_get_expr pg_get_indexdef pg_get_viewdef pg_table_is_visible phraseto_tsquery pi plainto_tsquery position pow power precision
        printf quote quote_ident quote_literal radians random randomblob rank references regexp regexp_match regexp_matches regexp_replace
        regexp_split_to_array regexp_split_to_table repeat replace returning reverse right rollup round row row_number rpad rtrim select
        set sets setweight sign similar similarity sin smallint some soundex split_part sqlite_source_id sqlite_version sqrt
        statement_timestamp stddev stddev_pop stddev_samp strftime string_agg string_to_array strpos substr substring sum table tan then
        time timediff timeofday timestamp timestamptz to_char to_date to_hex to_json to_jsonb to_number to_timestamp to_tsquery
        to_tsvector total total_changes transaction_timestamp translate trim trunc ts_headline ts_rank ts_rank_cd txid_current typeof
        unaccent unicode union unique unixepoch unlikely unnest update upper using uuid_generate_v1 uuid_generate_v4 values var_pop
        var_samp varbit varchar variance varying version websearch_to_tsquery when where width_bucket window with within without
        word_similarity zeroblob
      ].to_h { |name| [name, true] }.freeze
      # Nor do these, of which the front thinks nothing.
      LOCKS = /\Apg_(?:try_)?advisory_\w+\z|\A(?:pg_sleep|pg_notify|nextval|setval|set_config|generate_subscripts|pg_get_serial_sequence)\z/
      # Texts whose answer is kept.
      MAX_KEPT = 2000
      private_constant :COMMENTED, :ANYTHING, :LITERALS, :CALLS, :KNOWN, :LOCKS, :MAX_KEPT

      @reads = {}

      class << self
        # It changes nothing, and is one statement.
        def read?(sql)
          found = @reads[sql]
          return found unless found.nil?

          found = !several?(sql) && reads(sql)
          @reads[sql.dup.freeze] = found if @reads.size < MAX_KEPT && sql.size < 4096
          found
        end

        # It reads, and nobody wants to know what.
        def unremarkable?(sql)
          AutoCache.recording.nil? && read?(sql)
        end

        # BEGIN, COMMIT, a savepoint.
        def control?(sql)
          CONTROL.match?(sql)
        end

        # The schema may be another one after one of these.
        def change_schema?(entries)
          entries.any? { |sql,| SCHEMA.match?(sql) }
        end

        # One statement that stands for all of these.
        def anything(entries)
          ANYTHING[change_schema?(entries) ? 1 : 0]
        end

        # It may change rows.
        def writes?(sql)
          !read?(sql) && (several?(sql) || !control?(sql))
        end

        # Several statements in one text, or a text with a semicolon in a literal.
        def several?(sql)
          at = sql.index(";")
          at && at < sql.rstrip.size - 1
        end

        private

        def reads(sql)
          case sql[READS, 1]&.upcase
          when nil then false
          when "EXPLAIN" then !sql.match?(/\bANALY[SZ]E\b/i)
          when "SELECT", "VALUES", "TABLE", "DECLARE" then plain?(sql)
          else true
          end
        end

        # It stores its result nowhere, and calls nothing that might.
        def plain?(sql)
          # Where a text in dollars ends, this does not know.
          bare = sql.include?("$$") ? sql : sql.gsub(LITERALS) { |found| found.start_with?('"') ? found : " " }
          return false if bare.match?(/\bINTO\b/i)

          bare.scan(CALLS).all? do |schema, name|
            name = name.downcase
            (KNOWN.key?(name) || LOCKS.match?(name)) && (schema.nil? || schema.casecmp?("pg_catalog"))
          end
        end
      end
    end
  end
end
