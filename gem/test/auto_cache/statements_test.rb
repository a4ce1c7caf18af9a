# frozen_string_literal: true

require "helper"
require "paceline/auto_cache"

# What a statement may do, as its text says it.
class AutoCacheStatementsTest < Paceline::Test
  S = Paceline::AutoCache::Statements

  READ = [
    "SELECT 1", "(SELECT 1)", " /* a: 'b' */ SELECT 1", "-- x\nselect 1", "VALUES (1)", "TABLE posts", "SHOW x", "SET x = 1", "PRAGMA table_info(\"posts\")",
    "EXPLAIN SELECT 1", "EXPLAIN QUERY PLAN SELECT 1",
    "SELECT COUNT(*) FROM posts WHERE (id) IN (1, 2) AND title = 'go into it()'",
    "SELECT COALESCE(MAX(id), 0), now() FROM posts -- into f()", "SELECT 'it''s INTO f()'", "SELECT E'it\\'s INTO f()'",
    "SELECT pg_catalog.lower('A')", "SELECT pg_try_advisory_lock(1, 2)", "SELECT nextval('posts_id_seq')", "SELECT CAST(a AS varchar(20)) FROM posts"
  ].freeze
  WRITES = [
    "DELETE FROM a", "/* x */ DELETE FROM a", "WITH a AS (DELETE FROM b RETURNING *) SELECT 1", "SELECT archive_posts()", "SELECT public.archive_posts(1)",
    "SELECT archive.lower(1)", "SELECT \"archive\".\"lower\"(1)", "SELECT \"archive_posts\" ()", "SELECT * INTO t FROM posts", "SELECT '/*' FROM f() WHERE 'x' = '*/'",
    "EXPLAIN ANALYZE DELETE FROM a", "EXPLAIN (COSTS, ANALYSE) DELETE FROM a", "VALUES (archive_posts())", "SELECT $$it's$$, archive_posts()",
    "SELECT 1; DELETE FROM a", "EXECUTE unknown"
  ].freeze

  def test_reads_and_writes
    READ.each { |sql| assert S.read?(sql) && !S.writes?(sql), sql }
    WRITES.each { |sql| assert S.writes?(sql), sql }
  end

  def test_what_controls_a_transaction
    ["BEGIN", "/*action='show'*/ BEGIN", "/* a */ /* b */\n commit transaction", "-- x\nROLLBACK", "COMMIT /* a */"].each do |sql|
      assert S.control?(sql), sql
      refute S.writes?(sql), sql
    end
    assert_equal "one", S::CONTROL.match("/* x */ ROLLBACK TO SAVEPOINT \"one\" /* y */")[3]
    refute S.control?("#{"/* a */" * 200} DELETE FROM a"), "in no time"
  end

  # After these the front knows no schema until it is told.
  def test_what_changes_the_schema
    file = File.expand_path("../../../crates/auto-cache/src/sql/shape.rs", __dir__)
    skip "the front's source is not here" unless File.exist?(file)
    verbs = File.read(file)[/("create" \|[^=]*)=>/, 1].scan(/\w+/)
    assert_includes verbs, "drop"
    verbs.each { |verb| assert_match S::SCHEMA, "/* x */ #{verb.upcase} a" }
    assert_match S::SCHEMA, "SET lock_timeout = 1;\nalter TABLE a ADD b int"
    refute_match S::SCHEMA, "UPDATE a SET b = 'created; dropped' WHERE create = 1"
  end

  # The front and this process have to agree on what may write.
  def test_the_words_of_the_front
    file = File.expand_path("../../../crates/auto-cache/src/sql/words.rs", __dir__)
    skip "the front's source is not here" unless File.exist?(file)
    text = File.read(file)
    names = %w[PURE DATES VOLATILE NOT_CALLED].flat_map { |list| text[/const #{list}: [^=]*= &\[(.*?)\];/m, 1].scan(/"(\w+)"/).flatten }
    assert_equal names.uniq.sort, S.send(:const_get, :KNOWN).keys.sort
  end
end
