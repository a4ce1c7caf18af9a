# frozen_string_literal: true

require "helper"
require "paceline/auto_cache"
require "paceline/auto_cache/schema"

# What is told of a catalogue, in which order. The catalogues are those of the tests.
class AutoCacheSchemaTest < Paceline::Test
  # A connection that answers a question by the first pattern that fits it.
  Catalogue = Struct.new(:adapter_name, :answers) do
    def select_rows(sql, _) = answers.find { |pattern, _| pattern.match?(sql) }&.last || []
    def quote(text) = "'#{text}'"
    def quote_column_name(name) = "\"#{name}\""
  end

  # The views that are told: name and SQL.
  def views(adapter, answers)
    fields = Paceline::AutoCache::Schema.of(Catalogue.new(adapter, answers)).split("\0")
    fields.each_index.select { |at| fields[at] == "V" }.map { |at| fields[at + 1, 2] }
  end

  def test_a_full_text_index_of_another_table
    tables = { "posts" => "CREATE TABLE posts (title)", "found" => "CREATE VIRTUAL TABLE found USING fts5(title, content='posts', content_rowid='id')",
               "notes" => "CREATE VIRTUAL TABLE notes USING fts5(text, content='')", "recent" => "CREATE VIEW recent AS SELECT * FROM posts" }
    rows = tables.map { |name, sql| [sql.include?("VIEW") ? "view" : "table", name, name, sql] }
    told = views("SQLite", { /sqlite_master/ => rows })
    assert_equal [["found", "SELECT * FROM \"posts\""], ["recent", tables["recent"]]], told
  end

  # What a view reads is known by what was told before it.
  def test_foreign_tables_and_partitions_come_before_views
    told = views("PostgreSQL", { /relkind = 'f'/ => [["rates"]], /pg_inherits/ => [%w[sales sales_2026], %w[sales sales_2026_01]], /pg_views/ => [["best", "SELECT * FROM sales"]] })
    assert_equal [["rates", "SELECT * FROM unknown(foreign)"], ["sales", "SELECT * FROM \"sales_2026\""], ["sales", "SELECT * FROM \"sales_2026_01\""],
                  ["best", "SELECT * FROM sales"]], told
  end
end
