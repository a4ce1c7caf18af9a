# A short run of the model of the automatic page cache (test/auto_cache/model): random reads and writes, workers that are killed.
require "open3"
require_relative "../support/scenario"

class CacheAutoModelTest < Minitest::Test
  include Scenario

  MODEL = File.join(CHECKOUT, "test/auto_cache/model")

  def test_nothing_is_stale
    assert_nothing_stale("sqlite", "sqlite3")
  end

  def test_nothing_is_stale_with_postgresql
    skip "no server of PostgreSQL" if Dir["/usr/lib/postgresql/*/bin"].empty?
    assert_nothing_stale("postgresql", "pg")
  end

  private

  def assert_nothing_stale(database, driver)
    skip "Active Record is not here" unless ["activerecord", driver].all? { |name| Gem::Specification.find_all_by_name(name).any? }
    out, status = Open3.capture2e({ "PACELINE_BIN" => BIN }, RbConfig.ruby, MODEL, "--database", database, "--steps", "1000000", "--seconds", "10")
    assert_predicate status, :success?, out
    reads, hits, writes = out.match(/(\d+) reads \((\d+) hits\), (\d+) writes/).captures.map(&:to_i)
    assert_operator hits, :>, 0, "#{reads} reads, #{writes} writes"
    assert_operator writes, :>, 0
  end
end
