# frozen_string_literal: true

require "json"
require_relative "sql_conditions"

# Whether PostgreSQL reads the whole of a large table for a query that an index would answer with few of its rows. It only asks for plans and
# statistics: nothing of the query is run, and nothing is written. Where the extension hypopg is installed, the planner says what it would do if the
# index were there.
module Paceline
  module Server
    module Shadow
      class Evidence
        module PostgresqlScan
          # What takes less (microseconds) is not asked for: each question goes to the server.
          MIN_US = 500
          # A smaller table (rows) is read as fast as an index.
          MIN_ROWS = 10_000
          # Where conditions leave a larger part of the rows, no index is quicker.
          MAX_PART = 0.05
          # One more column of an index is of use as long as so many rows are left.
          FEW_ROWS = 50
          MAX_COLUMNS = 3
          # Longer queries (bytes) are not looked at.
          MAX_BYTES = 20_000
          private_constant :MIN_ROWS, :MAX_PART, :FEW_ROWS, :MAX_COLUMNS, :MAX_BYTES

          module_function

          # {table:, columns:, rows:, matching:, cost:} of the first table that is read whole for the rows that equal these columns: how many there are, how
          # many of them are wanted, and the planner's cost of the query as it is and with an index on the columns (nil: hypopg is not installed). Nil:
          # there is none, the planner would not use the index, or it can't be told.
          def find(sql, values, pool)
            return if sql.bytesize > MAX_BYTES || !sql.match?(/\A\s*(?:SELECT|WITH)\b/i)

            pool.with_connection { |connection| apart(connection) { look(sql, values || [], connection) } }
          rescue StandardError # a query that can't be explained is no reason to lose the rest
            nil
          end

          # The block asks within a transaction of its own: what fails there ends no other.
          def apart(connection)
            found = nil
            connection.transaction(requires_new: true) do
              found = yield
              raise ::ActiveRecord::Rollback
            end
            found
          end

          def look(sql, values, connection)
            conditions = SqlConditions.new(sql)
            plan = plan(sql, values, connection)
            scans(plan).each do |node, processes|
              found = scan(node, processes, conditions, connection) or next
              return planned(found, plan, connection) { plan(sql, values, connection) }
            end
            nil
          end

          def plan(sql, values, connection)
            told = connection.exec_query("EXPLAIN (FORMAT JSON) #{sql}", "EXPLAIN", values).rows.first.first
            (told.is_a?(String) ? JSON.parse(told) : told).first.fetch("Plan")
          end

          # The nodes of a plan that read a whole table and keep some of its rows, each with the number of processes that share in it.
          def scans(node, processes = 1)
            processes = node["Workers Planned"] + 1 if node["Workers Planned"]
            below = Array(node["Plans"]).flat_map { |one| scans(one, processes) }
            return below unless node["Node Type"] == "Seq Scan" && node["Filter"]

            [[node, node["Parallel Aware"] ? processes : 1], *below]
          end

          def scan(node, processes, conditions, connection)
            table = conditions.table(node["Alias"])
            return unless table && table == node["Relation Name"]

            distinct, rows = statistics(table, connection)
            matching = node["Plan Rows"] * processes
            return if rows < MIN_ROWS || matching > rows * MAX_PART

            columns = chosen(conditions.equal(node["Alias"], distinct.keys) & distinct.keys, distinct, rows)
            { table: table, columns: columns, rows: rows, matching: matching, cost: nil } unless columns.empty? || indexed?(table, columns.first, connection)
          end

          # {column => its different values}, and the number of rows, as the last ANALYZE has found them.
          def statistics(table, connection)
            found = connection.exec_query(<<~SQL, "SCHEMA").rows
              SELECT s.attname, s.n_distinct, c.reltuples FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
              JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname AND NOT s.inherited WHERE c.oid = #{oid(table, connection)}
            SQL
            rows = found.empty? ? 0.0 : found.first.last.to_f
            # Below zero: as a part of the rows.
            [found.to_h { |column, number, _| [column, number.to_f.negative? ? -number.to_f * rows : number.to_f] }, rows.round]
          end

          # In the order of an index: the column that leaves the fewest rows comes first, and those that hardly leave fewer are left out.
          def chosen(columns, distinct, rows)
            left = rows.to_f
            wanted = columns.sort_by { |column| -distinct[column] }.take_while do |column|
              is_of_use = left > FEW_ROWS
              left /= [distinct[column], 1.0].max
              is_of_use
            end
            wanted.first(MAX_COLUMNS)
          end

          # Whether an index of all rows begins with the column.
          def indexed?(table, column, connection)
            connection.exec_query(<<~SQL, "SCHEMA").rows.flatten.include?(column)
              SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
              WHERE i.indrelid = #{oid(table, connection)} AND i.indisvalid AND i.indpred IS NULL
            SQL
          end

          def oid(table, connection)
            "#{connection.quote(connection.quote_table_name(table))}::regclass"
          end

          # What was found, with the costs of the plan and of that of the block, which is made as if the index were there. Nil: it would not be used.
          def planned(found, plan, connection)
            extension = "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'hypopg'"
            schema = connection.exec_query(extension, "SCHEMA").rows.flatten.first or return found
            apart(connection) do
              hypothetical(found, connection, connection.quote_column_name(schema)) do |index|
                other = apart(connection) { yield }
                found.merge(cost: [plan["Total Cost"], other["Total Cost"]]) if uses?(other, index)
              end
            end
          rescue ::ActiveRecord::StatementInvalid # its functions are not for everybody
            found
          end

          # Yields the name of an index that is there for the planner of this session alone.
          def hypothetical(found, connection, schema)
            columns = found[:columns].map { |column| connection.quote_column_name(column) }.join(", ")
            statement = connection.quote("CREATE INDEX ON #{connection.quote_table_name(found[:table])} (#{columns})")
            made = connection.exec_query("SELECT indexrelid, indexname FROM #{schema}.hypopg_create_index(#{statement})", "SCHEMA").rows.first
            yield made.last
          ensure
            connection.exec_query("SELECT #{schema}.hypopg_drop_index(#{made.first.to_i})", "SCHEMA") if made
          end

          def uses?(node, index)
            node["Index Name"] == index || Array(node["Plans"]).any? { |one| uses?(one, index) }
          end

          private_class_method :apart, :look, :plan, :scans, :scan, :statistics, :chosen, :indexed?, :oid, :planned, :hypothetical, :uses?
        end
      end
    end
  end
end
