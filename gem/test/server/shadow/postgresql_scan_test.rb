# frozen_string_literal: true

require_relative "support/shadow_case"
require_relative "support/postgresql"

# A missing index of PostgreSQL is told by the planner and its statistics alone: no index is made, and a failed question leaves the rest as it was.
class ShadowPostgresqlScanTest < ShadowCase
  ROWS = 60_000
  HEAD = <<~RUBY.freeze
    require "pg"
    require "active_record"
    OPTIONS = { host: ENV.fetch("TEST_PG_HOST"), dbname: "postgres", user: "postgres" }
    PG.connect(**OPTIONS) do |c|
      c.exec(<<~SQL)
        DROP TABLE IF EXISTS orders, few;
        CREATE TABLE orders (id serial PRIMARY KEY, customer integer NOT NULL, state text NOT NULL, note text);
        INSERT INTO orders (customer, state) SELECT n % 3000, CASE WHEN n % 2 = 0 THEN 'open' ELSE 'done' END FROM generate_series(1, #{ROWS}) n;
        CREATE TABLE few AS SELECT * FROM orders LIMIT 500;
        ANALYZE orders;
        ANALYZE few;
      SQL
    end
    ActiveRecord::Base.establish_connection(adapter: "postgresql", host: OPTIONS[:host], database: "postgres", username: "postgres")
    class Order < ActiveRecord::Base; end
    class Few < ActiveRecord::Base; self.table_name = "few"; end
    Order.first
    # Each query is asked for, however quick this machine is.
    require "#{File.expand_path("../../../lib/paceline/server/shadow/evidence", __dir__)}"
    scan = Paceline::Server::Shadow::Evidence::PostgresqlScan
    scan.send(:remove_const, :MIN_US)
    scan.const_set(:MIN_US, 0)
  RUBY
  CODES = {
    "by customer" => "Order.where(customer: 7).to_a", "as text" => "Order.find_by_sql('SELECT o.* FROM orders o WHERE o.customer = 7')",
    "with another" => "Order.where(customer: 7, state: 'open').to_a",
    "by id" => "Order.find(7)", "half of them" => "Order.where(state: 'open').count", "of few" => "Few.where(customer: 7).to_a",
    "of NULLs" => "Order.where(note: nil).count", "by a function" => "Order.where('ABS(customer) = 7').to_a", "none" => "Order.count",
    "after a mistake" => "(Order.where('nothing = 1').to_a rescue Order.connection.transaction_open?)"
  }.freeze

  # Yields what came of each code's first query of a table that is read whole, and our connection.
  def observed(codes = CODES, before: nil)
    PostgreSQL.with do |server|
      names = codes.keys.each_with_index.to_h
      with_shadow("#{HEAD}#{routes(codes.transform_keys { |name| "/#{names[name]}" })}", env: { "TEST_PG_HOST" => server.host }) do |shadow|
        server.query(before) if before
        scans = codes.keys.to_h do |name|
          result = shadow.get("/#{names[name]}", observe: true)
          assert_nil result["write"], name
          [name, result.dig("evidence", "sql").filter_map { |sql| sql["scan"] }.first]
        end
        yield scans, server
      end
    end
  end

  def test_what_an_index_would_answer
    observed do |found, server|
      customer = { "table" => "orders", "columns" => ["customer"], "rows" => ROWS }
      wanted = ["by customer", "as text", "with another"]
      assert_equal wanted, found.compact.keys
      found.values_at(*wanted).each { |scan| assert_equal customer, scan.slice(*customer.keys) }
      assert_in_delta 20, found["by customer"]["matching"], 15
      assert_equal [%w[orders_pkey]], server.query("SELECT indexname FROM pg_indexes WHERE tablename IN ('orders', 'few')")
    end
  end

  def test_a_second_column_where_the_first_leaves_many_rows
    codes = { "both" => "Order.where(customer: 7, state: 'open').to_a" }
    before = "UPDATE orders SET customer = customer % 100, note = (id % 50)::text; ANALYZE orders"
    observed(codes.merge("all" => "Order.where(state: 'open', note: '7', customer: 7).to_a"), before: before) do |found|
      assert_equal [%w[customer state], %w[customer note]], found.values.map { |scan| scan["columns"] }
    end
  end

  def test_an_index_that_is_there
    codes = CODES.slice("by customer")
    observed(codes, before: "CREATE INDEX ON orders (customer)") { |found| assert_nil found["by customer"] }
    observed(codes, before: "CREATE INDEX ON orders (customer) WHERE state = 'gone'") { |found| assert_equal ["customer"], found["by customer"]&.fetch("columns"), "it is for other rows" }
  end

  # Debian 12: postgresql-15-hypopg, which `bin/setup test` installs.
  def test_the_planner_is_asked_where_it_can_be
    PostgreSQL.with do |server|
      skip "no extension hypopg" if server.query("SELECT 1 FROM pg_available_extensions WHERE name = 'hypopg'").empty?
    end
    codes = CODES.slice("by customer", "half of them")
    observed(codes, before: "CREATE EXTENSION IF NOT EXISTS hypopg") do |found, server|
      before, after = found["by customer"]["cost"]
      assert_operator after * 5, :<, before
      assert_nil found["half of them"]
      assert_equal [%w[orders_pkey]], server.query("SELECT indexname FROM pg_indexes WHERE tablename = 'orders'")
    ensure
      server.query("DROP EXTENSION hypopg")
    end
  end
end
