# `paceline doctor` on an application with a real PostgreSQL: a missing index is told by the planner, and none is made.
require_relative "../../../gem/test/server/shadow/support/postgresql"
require_relative "../support/asking"
require_relative "../support/beside_doctor"
require_relative "../support/rails_shop"
require_relative "../support/scenario"

class DoctorDatabaseTest < Minitest::Test
  include Scenario
  include Asking
  include BesideDoctor
  include RailsShop

  ROWS = 200_000
  SCHEMA = <<~SQL.freeze
    DROP TABLE IF EXISTS orders;
    CREATE TABLE orders (id serial PRIMARY KEY, customer integer NOT NULL, state text NOT NULL, note text NOT NULL);
    INSERT INTO orders (customer, state, note) SELECT n % 10000, CASE WHEN n % 2 = 0 THEN 'open' ELSE 'done' END, repeat('x', 100) FROM generate_series(1, #{ROWS}) n;
    ANALYZE orders;
  SQL
  APP = RailsShop.config_ru(<<~RUBY, railties: %w[active_record action_controller], log: "log/rails.log").freeze
    class Order < ActiveRecord::Base; end
    class OrdersController < ActionController::Base
      def of_customer = render(plain: Order.where(customer: params[:id]).order(:id).map(&:id).join(","))
      def show = render(plain: Order.find(params[:id]).state)
    end
    Rails.application.routes.draw do
      get "/customers/:id", to: "orders#of_customer"
      get "/orders/:id", to: "orders#show"
    end
  RUBY

  # With an application of Rails on a database in which customers have 20 of many orders each.
  def shop
    skip_without_rails
    PostgreSQL.with do |database|
      database.query(SCHEMA)
      yml = "production:\n  adapter: postgresql\n  host: #{database.host}\n  database: postgres\n  username: postgres\n"
      yield app("config.ru" => APP, "config/database.yml" => yml, "log/.keep" => "", ".gitignore" => "log\ntmp\nstate\nGemfile.lock\n"), database
    end
  end

  def indexes(database) = database.query("SELECT indexname FROM pg_indexes WHERE tablename = 'orders'").flatten

  def test_a_missing_index
    shop do |dir, database|
      paths = %w[/customers/7 /customers/8 /orders/9].flat_map { |path| ["--path", path] }
      found = report(dir, "--offline", ".", *paths, "--only", "missing_index", status: 1)
      assert_equal [[], 3], [left_out(found), found["sample"]["requests"]]
      advice = found["advice"].first
      assert_equal ["missing_index", ["GET /customers/*"], "what_if", "same"], advice.values_at("kind", "routes", "trial", "bytes")
      assert_match(/\APostgreSQL reads all 200,000 rows of orders to find about \d+ by customer\b.*: SELECT orders\.\* FROM orders WHERE orders\.customer = /, advice["sentence"])
      gain = advice["gains"].first
      assert_equal "at_most", gain["bound"]
      assert_operator gain["gain_us"], :>, gain["of_us"] * 0.3, "most of the request is spent on reading orders"
      assert_equal ["add_index :orders, :customer, algorithm: :concurrently", true], advice["fix"].values_at("line", "can_apply")
      assert_equal ["orders_pkey"], indexes(database)

      commit(dir)
      assert_match(/: now run: bin\/rails db:migrate; then restart the server that serves it$/, doctor(dir, "apply", 1))
      migration = File.read(Dir[File.join(dir, "db/migrate/*_add_index_to_orders_on_customer.rb")].first)
      assert_match(/^  disable_ddl_transaction!$/, migration)
      assert_equal ["orders_pkey"], indexes(database), "a migration is run by its author"

      # With the index there is nothing to say.
      database.query("CREATE INDEX ON orders (customer)")
      found = report(dir, "--offline", ".", *paths, "--only", "missing_index")
      assert_empty found["advice"] + found["others"]
    end
  end

  def left_out(report) = report["sample"]["left_out"]
end
