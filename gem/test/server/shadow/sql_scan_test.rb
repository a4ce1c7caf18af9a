# frozen_string_literal: true

require_relative "support/shop_case"

# Which index a query of SQLite wants, by its plan: the shop's beers have one of brewery_id.
class ShadowSqlScanTest < ShopCase
  def scan(sql)
    in_shop("require \"paceline/server/shadow/evidence\"; Paceline::Server::Shadow::Evidence::SqlScan.find(#{sql.dump}, [], Struct.new(:c) { def with_connection = yield(c) }.new(ActiveRecord::Base.connection))")
  end

  def assert_wants(columns, reads, sql)
    assert_equal({ "table" => "beers", "columns" => columns, "reads" => reads }.compact, scan(sql), sql)
  end

  def test_a_condition_without_an_index
    assert_wants(%w[style], nil, "SELECT * FROM beers WHERE style = ?")
  end

  def test_an_order_for_a_few_rows
    assert_wants(%w[name], "sorted", 'SELECT "beers".* FROM "beers" ORDER BY "beers"."name" DESC LIMIT 5')
    assert_wants(%w[brewery_id name], "sorted", "SELECT * FROM beers WHERE brewery_id = ? ORDER BY name LIMIT 5")
  end

  def test_a_condition_of_which_an_index_has_a_part
    assert_wants(%w[brewery_id style], "part", "SELECT * FROM beers WHERE style = ? AND brewery_id = ?")
  end

  def test_queries_that_want_none
    ["SELECT * FROM beers ORDER BY name", "SELECT * FROM beers ORDER BY id DESC LIMIT 5", "SELECT * FROM beers ORDER BY name, style DESC LIMIT 5", "SELECT * FROM beers WHERE brewery_id = ?"].each { |sql| assert_nil scan(sql), sql }
  end
end
