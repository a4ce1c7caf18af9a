# frozen_string_literal: true

require_relative "support/shadow_case"
require "paceline/server/shadow/patches"

# The clock of databases is that of a page which is rendered for another time, or the page is known to depend on it.
class ShadowSqlClockTest < ShadowCase
  CLOCK = Time.utc(2030, 6, 1, 12).to_i
  HEAD = <<~'RUBY'
    require "sqlite3"
    FILE = File.join(__dir__, "shop.sqlite3")
    SQLite3::Database.new(FILE) do |db|
      db.execute("CREATE TABLE sales (name, starts_at)")
      db.execute("INSERT INTO sales VALUES ('summer', '2030-06-01 12:00:00'), ('winter', '2030-12-01 12:00:00')")
      db.execute("CREATE INDEX months ON sales (strftime('%m', starts_at))")
    end
    # Since its version 2, the gem closes in a forked process what may write.
    OPEN = SQLite3::Database.new(FILE, readonly: SQLite3::VERSION >= "2")
    def ask(sql, *values) = OPEN.get_first_value(sql, values)
  RUBY
  TIMES = {
    "SELECT CURRENT_TIMESTAMP" => "2030-06-01 12:00:00", "SELECT CURRENT_DATE" => "2030-06-01", "SELECT current_time" => "12:00:00",
    "SELECT datetime('now')" => "2030-06-01 12:00:00", "SELECT datetime('NOW', '+1 day')" => "2030-06-02 12:00:00", "SELECT datetime()" => "2030-06-01 12:00:00",
    "SELECT date('now', 'start of month')" => "2030-06-01", "SELECT strftime('%Y %H', 'now')" => "2030 12", "SELECT strftime('%s', 'now')" => CLOCK.to_s,
    "SELECT strftime('%Y')" => "2030", "SELECT time('11:30', '+1 hour')" => "12:30:00", "SELECT date('2001-02-03')" => "2001-02-03",
    "SELECT datetime(NULL)" => "", "SELECT round(julianday('now') - julianday('2030-06-01'), 2)" => "0.5",
    "SELECT group_concat(name) FROM sales WHERE starts_at <= datetime('now')" => "summer",
    "SELECT count(*) FROM sales WHERE strftime('%m', starts_at) = '12'" => "1"
  }.freeze

  def with_sql_clock(routes)
    with_shadow(HEAD + routes(routes)) do |shadow|
      assert_equal({ "ok" => true }, shadow.ask({ do: "patch", name: "sql_clock" }))
      yield shadow
    end
  end

  def test_sqlite_s_clock_is_that_of_the_page
    queries = TIMES.keys.each_with_index.to_h { |sql, number| ["/#{number}", "ask(#{sql.inspect})"] }
    with_sql_clock(queries.merge("/fresh" => "SQLite3::Database.new(FILE).get_first_value('SELECT CURRENT_DATE')")) do |shadow|
      TIMES.each_with_index do |(sql, told), number|
        answer = shadow.get("/#{number}", clock: CLOCK + 0.01)
        assert_equal [told, nil], [answer["text"], answer["write"]], sql
      end
      assert_equal "2030-06-01", shadow.get("/fresh", clock: CLOCK)["text"]
      assert_equal "2031-06-01", shadow.get("/fresh", clock: CLOCK + 365 * 86_400)["text"]
    end
  end

  # A database that can't be told the time. The class stands for a server's connection.
  def test_where_another_database_is_asked_for_its_clock
    head = "module PG; class Connection; def exec(sql) = sql.size; def prepare(name, sql) = sql.size; end; end\n"
    code = routes("/now" => "PG::Connection.new.exec('SELECT now()')", "/plain" => "PG::Connection.new.exec('SELECT 1')",
                  "/prepared" => "PG::Connection.new.prepare('x', 'SELECT CURRENT_DATE')")
    with_shadow(head + code) do |shadow|
      shadow.ask({ do: "patch", name: "sql_clock" })
      assert_equal note("clock", "NOW()", "config.ru:5"), shadow.get("/now")["write"].transform_values { |value| value.sub(/config.ru:\d+/, "config.ru:5") }
      assert_nil shadow.get("/plain")["write"]
      assert_equal "CURRENT_DATE", shadow.get("/prepared")["write"]["what"]
    end
  end

  def test_clocks_in_queries
    clock_in = Paceline::Server::Shadow::Patches::SqlClock.method(:clock_in)
    {
      "SELECT * FROM sales WHERE starts_at <= NOW()" => "NOW()", "select now ( )" => "NOW()", "SELECT CURRENT_TIMESTAMP AT TIME ZONE 'UTC'" => "CURRENT_TIMESTAMP",
      "SELECT UNIX_TIMESTAMP()" => "UNIX_TIMESTAMP()", "SELECT 'now'::timestamptz" => "'now'", "SELECT date 'today'" => "date 'today'",
      "SELECT UNIX_TIMESTAMP(starts_at)" => nil, "SELECT 'NOW()'" => nil, "SELECT \"current_date\" FROM x" => nil, "SELECT `current_time` FROM x" => nil,
      "SELECT known() -- now()" => nil, "SELECT nowhere FROM snow" => nil, "SELECT 'it''s now()', 1" => nil, "SELECT 'today'" => nil
    }.each { |sql, told| told.nil? ? assert_nil(clock_in.call(sql), sql) : assert_equal(told, clock_in.call(sql), sql) }
  end
end
