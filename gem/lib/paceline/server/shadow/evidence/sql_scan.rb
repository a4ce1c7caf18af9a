# frozen_string_literal: true

require_relative "sql_conditions"

# Whether SQLite reads a whole table for a query that an index would answer, or sorts what an index has in order, or reads by an index of fewer columns than the
# query compares. It only asks for the plan: nothing of the query is run.
module Paceline
  module Server
    module Shadow
      class Evidence
        module SqlScan
          # As SQLite writes it since 3.36 ("SCAN beers", "SCAN b USING INDEX x") and before ("SCAN TABLE beers AS b").
          SCAN = /\ASCAN (?:TABLE )?(?<name>[^\s(]+)(?: AS (?<alias>\S+))?(?<rest>.*)\z/.freeze
          # An index that SQLite makes for one query alone, for want of one that stays.
          AUTOMATIC = /\ASEARCH (?:TABLE )?(?<name>[^\s(]+)(?: AS (?<alias>\S+))? USING AUTOMATIC .*?INDEX \((?<columns>[^)]*)\)/.freeze
          # By an index of these columns.
          SEARCH = /\ASEARCH (?:TABLE )?(?<name>[^\s(]+)(?: AS (?<alias>\S+))? USING (?:COVERING )?INDEX \S+ \((?<used>[^)]*)\)/.freeze
          SORT = "USE TEMP B-TREE FOR ORDER BY"
          # Queries that take less (microseconds) are looked at, too: the plan is made in this process.
          MIN_US = 0
          # Longer queries (bytes) are not looked at.
          MAX_BYTES = 20_000
          private_constant :SCAN, :AUTOMATIC, :SEARCH, :SORT, :MAX_BYTES

          module_function

          # {table:, columns:} of the first table that is read whole although the query has conditions on these columns; nil: there is none,
          # an index begins with one of them, or it can't be told. With `reads: "sorted"` it is sorted by them for a few rows, with `reads: "part"` an index has fewer
          # of them. The plan does not depend on the values.
          def find(sql, _values, pool)
            return if sql.bytesize > MAX_BYTES || !sql.match?(/\A\s*(?:SELECT|WITH)\b/i)

            pool.with_connection { |connection| look(sql, connection) }
          rescue StandardError # a query that can't be explained is no reason to lose the rest
            nil
          end

          def look(sql, connection)
            conditions = SqlConditions.new(sql)
            before = Hash.new(0)
            lines = plan(sql, connection)
            lines.each do |line, loops|
              found = scan(line, conditions, connection, before[loops].positive?) and return found
              before[loops] += 1
            end
            reads = lines.map(&:first).grep(/\A(?:SCAN|SEARCH) /)
            (sorted(reads.first, conditions, connection) if lines.any? { |line,| line == SORT }) || part(reads.first, conditions, connection) if reads.size == 1
          end

          # Of one table: what the query compares, and then what it is ordered by.
          def sorted(line, conditions, connection)
            name, table, known = read(line, conditions, connection)
            order = conditions.order(name, known) if table && conditions.limited?
            better(table, conditions.equal(name, known) | order, "sorted", connection) if order
          end

          # An index of what it compares, where one of fewer columns is used.
          def part(line, conditions, connection)
            name, table, known = read(line, conditions, connection)
            used = SEARCH.match(line)&.[](:used) or return
            columns = table ? conditions.equal(name, known) : []
            used = used.scan(/(\w+)=\?/).flatten
            better(table, used | columns, "part", connection) if used.any? && (columns - used).any?
          end

          def read(line, conditions, connection)
            match = SCAN.match(line) || SEARCH.match(line) or return
            name = match[:alias] || match[:name]
            table = conditions.table(name) or return
            [name, table, connection.columns(table).map(&:name)]
          end

          # Not where there is such an index already, which the database had its reasons to leave alone.
          def better(table, columns, reads, connection)
            begins = connection.indexes(table).any? { |index| Array(index.columns).map(&:to_s).first(columns.size).sort == columns.sort }
            { table: table, columns: columns, reads: reads } unless begins
          end

          # [what is done, within what] in the order in which tables are read. Parameters without a value are NULL, and the plan does not depend on them.
          def plan(sql, connection)
            connection.exec_query("EXPLAIN QUERY PLAN #{sql}", "EXPLAIN", []).map { |row| [row["detail"].to_s, row["parent"]] }
          end

          def scan(line, conditions, connection, joined)
            return if line.include?("VIRTUAL TABLE")

            match = SCAN.match(line) || AUTOMATIC.match(line) or return
            name = match[:alias] || match[:name]
            table = conditions.table(name) or return
            known = connection.columns(table).map(&:name)
            columns = automatic(match) || conditions.columns(name, known, joined: joined)
            columns &= known
            { table: table, columns: columns } if columns.any? && !indexed?(table, columns, connection)
          end

          def automatic(match)
            match[:columns].split(" AND ").map { |condition| condition[/\A\w+/] }.compact if match.names.include?("columns")
          end

          def indexed?(table, columns, connection)
            heads = connection.indexes(table).map { |index| Array(index.columns).first.to_s }
            heads << connection.primary_key(table).to_s
            columns.any? { |column| heads.include?(column) }
          end

          private_class_method :look, :plan, :scan, :automatic, :indexed?, :sorted, :part, :read, :better
        end
      end
    end
  end
end
