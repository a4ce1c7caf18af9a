# frozen_string_literal: true

require "helper"
require "json"
require "paceline/server/shadow/evidence"

# What is made of PostgreSQL's plans and statistics, without a server: also of those that a small table on an idle machine does not have.
class ShadowPostgresqlPlansTest < Minitest::Test
  # A connection that answers what PostgreSQL would, and its pool.
  class Connection
    Result = Struct.new(:rows)
    HYPOTHETICAL = [16_500, "<16500>btree_orders"].freeze

    # Everything that it was asked, and the hypothetical index that is left.
    attr_reader :asked, :index

    # `distinct`: the columns with their numbers of values, as in pg_stats. `indexed`: those that an index begins with. `hypopg`: the plan with a
    # hypothetical index; :refused: its functions are not for everybody.
    def initialize(plan, distinct: { "customer" => -0.05, "state" => 2.0 }, rows: 200_000, indexed: ["id"], hypopg: nil)
      @plan, @distinct, @rows, @indexed, @hypopg = plan, distinct, rows, indexed, hypopg
      @asked = []
    end

    def with_connection = yield(self)

    def transaction(requires_new:)
      yield
    rescue ActiveRecord::Rollback
      raise "in a transaction of its own" unless requires_new
    end

    def exec_query(sql, _name = nil, values = [])
      @asked << [sql, values]
      Result.new(answer(sql))
    end

    def quote(text) = "'#{text}'"
    def quote_table_name(name) = "\"#{name}\""
    alias quote_column_name quote_table_name

    private

    def answer(sql)
      case sql
      when /\AEXPLAIN \(FORMAT JSON\) SELECT/ then [[JSON.generate([{ "Plan" => @index ? @hypopg : @plan }])]]
      when /pg_stats/ then @distinct.map { |column, number| [column, number, @rows.to_f] }
      when /pg_index/ then @indexed.map { |column| [column] }
      when /pg_extension/ then @hypopg ? [["extensions"]] : []
      when /"extensions"\.hypopg_create_index\('(.*)'\)/ then made($1)
      when /"extensions"\.hypopg_drop_index\(16500\)/ then [[@index = nil]]
      else raise sql
      end
    end

    def made(statement)
      raise ActiveRecord::StatementInvalid, "permission denied" if @hypopg == :refused

      @index = statement
      [HYPOTHETICAL]
    end
  end

  SQL = 'SELECT "orders".* FROM "orders" WHERE "orders"."customer" = $1 AND "orders"."state" = $2'
  SCAN = { "Node Type" => "Seq Scan", "Relation Name" => "orders", "Alias" => "orders", "Filter" => "(customer = 7)", "Plan Rows" => 20, "Total Cost" => 4_250.5 }.freeze
  FOUND = { table: "orders", columns: ["customer"], rows: 200_000, matching: 20, cost: nil }.freeze

  def setup
    require "active_record"
  rescue LoadError
    skip "no gem activerecord"
  end

  def found(connection, sql = SQL) = Paceline::Server::Shadow::Evidence::PostgresqlScan.find(sql, [7, "open"], connection)

  def test_a_scan_is_told_with_its_figures
    connection = Connection.new(SCAN)
    assert_equal FOUND, found(connection)
    assert_equal [7, "open"], connection.asked.first.last, "the values decide over the plan"
    parallel = { "Node Type" => "Gather", "Workers Planned" => 2, "Plans" => [{ "Node Type" => "Sort", "Plans" => [SCAN.merge("Parallel Aware" => true, "Plan Rows" => 8)] }] }
    assert_equal FOUND.merge(matching: 24), found(Connection.new(parallel))
    joined = 'SELECT o.* FROM "orders" o INNER JOIN customers c ON c.id = o.customer WHERE o.customer = $1'
    assert_equal FOUND, found(Connection.new({ "Node Type" => "Nested Loop", "Plans" => [{ "Node Type" => "Index Scan" }, SCAN.merge("Alias" => "o")] }), joined)
  end

  def test_columns_are_in_the_order_of_an_index
    sql = 'SELECT * FROM "orders" WHERE "orders"."state" = $1 AND "orders"."shop" = $2 AND "orders"."day" = $3 AND "orders"."note" IS NULL'
    distinct = { "state" => 2.0, "shop" => 50.0, "day" => 365.0, "note" => -1.0 }
    assert_equal %w[day shop], found(Connection.new(SCAN, distinct: distinct, rows: 20_000), sql)[:columns]
    assert_equal %w[day shop state], found(Connection.new(SCAN, distinct: distinct, rows: 9_000_000), sql)[:columns]
  end

  def test_what_no_index_would_answer
    { "many of them" => [SCAN.merge("Plan Rows" => 20_000), {}], "a small table" => [SCAN, { rows: 9_999 }], "one that is there" => [SCAN, { indexed: %w[id customer] }],
      "without statistics" => [SCAN, { distinct: {} }], "by an index" => [SCAN.merge("Node Type" => "Index Scan"), {}], "all of it" => [SCAN.except("Filter"), {}],
      "another place of it" => [SCAN.merge("Alias" => "orders_1"), {}], "a partition" => [SCAN.merge("Relation Name" => "orders_2026"), {}] }.each do |name, (plan, settings)|
      assert_nil found(Connection.new(plan, **settings)), name
    end
    ["UPDATE orders SET customer = 1 WHERE customer = $1", "SELECT * FROM orders WHERE customer = $1 OR state = $2", "SELECT * FROM orders WHERE ABS(customer) = $1",
     "#{SQL}#{" " * 20_000}"].each { |sql| assert_nil found(Connection.new(SCAN), sql), sql }
  end

  def test_the_planner_says_what_a_hypothetical_index_would_change
    with_index = { "Node Type" => "Bitmap Heap Scan", "Total Cost" => 72.1, "Plans" => [{ "Node Type" => "Bitmap Index Scan", "Index Name" => Connection::HYPOTHETICAL.last }] }
    connection = Connection.new(SCAN, hypopg: with_index)
    assert_equal FOUND.merge(cost: [4_250.5, 72.1]), found(connection)
    assert_includes connection.asked.map(&:first).join("\n"), "hypopg_create_index('CREATE INDEX ON \"orders\" (\"customer\")')"
    assert_nil connection.index, "it is gone again"
    assert_empty connection.asked.map(&:first).reject { |sql| sql.match?(/\A(?:SELECT|EXPLAIN \(FORMAT JSON\)) /) }, "nothing else is asked"

    unused = Connection.new(SCAN, hypopg: SCAN)
    assert_nil found(unused), "the planner would not use it"
    assert_nil unused.index
    assert_equal FOUND, found(Connection.new(SCAN, hypopg: :refused))
  end
end
