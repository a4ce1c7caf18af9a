# frozen_string_literal: true

require_relative "support/shadow_case"
require_relative "support/postgresql"

# No request writes to a database, by ActiveRecord or without it, and each attempt is noted with the line of the application.
class ShadowDatabasesTest < ShadowCase
  RAW = <<~'RUBY'
    require "sqlite3"
    FILE = File.join(__dir__, "shop.sqlite3")
    SQLite3::Database.new(FILE) { |db| db.execute("CREATE TABLE visits (name)"); db.execute("INSERT INTO visits VALUES ('kept')") }
    # Since its version 2, the gem closes in a forked process what may write.
    OPEN = SQLite3::Database.new(FILE, readonly: SQLite3::VERSION >= "2")
    def fresh = SQLite3::Database.new(FILE)
  RUBY
  RECORD = <<~'RUBY'
    require "active_record"
    require "sqlite3"
    FILE = File.join(__dir__, "shop.sqlite3")
    ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: FILE)
    ActiveRecord::Schema.verbose = false
    ActiveRecord::Schema.define { create_table("visits") { |t| t.string :name } }
    class Visit < ActiveRecord::Base; end
    Visit.create!(name: "kept")
  RUBY

  # Yields the name of each code and what came of it.
  def unchanged(head, codes, rescued)
    answers = codes.values.each_with_index.to_h { |code, number| ["/#{number}", "begin; (#{code}); rescue #{rescued} => e; e.class.name; end"] }
    with_shadow("#{head}#{routes(answers)}") do |shadow, dir|
      # A reader may make an empty -wal, and has a place in the index of one.
      contents = lambda do
        Dir.children(dir).grep(/sqlite3(-wal|-journal)?\z/).to_h { |name| [name, File.binread(File.join(dir, name))] }.reject { |name, bytes| name.end_with?("-wal") && bytes.empty? }
      end
      before = contents.call
      codes.keys.each_with_index { |name, number| yield name, shadow.get("/#{number}") }
      assert_equal before, contents.call
    end
  end

  def test_sqlite_without_activerecord
    refused = { "INSERT INTO visits VALUES (?)" => "OPEN.execute(\"INSERT INTO visits VALUES ('secret')\")", "UPDATE visits SET name = ? WHERE rowid = ?" => "fresh.execute('UPDATE visits SET name = ? WHERE rowid = 5', ['secret'])",
                "DELETE FROM visits" => "fresh.prepare('DELETE FROM visits').execute", "CREATE TABLE t (a)" => "fresh.execute_batch('CREATE TABLE t (a)')", "VACUUM" => "fresh.execute('VACUUM')",
                "DROP TABLE visits" => "SQLite3::Database.new(FILE) { |db| db.execute('DROP TABLE visits') }",
                "INSERT INTO visits VALUES (length(?))" => "(db = fresh; db.execute('PRAGMA query_only = OFF'); db.execute('INSERT INTO visits VALUES (length(2))'))" }
    unchanged(RAW, refused, "SQLite3::Exception") do |sql, result|
      assert_equal ["SQLite3::ReadOnlyException", { "what" => sql, "kind" => "sql" }], [result["text"], result["write"]&.except("at")], sql
      assert_match(/\Aconfig\.ru:\d+\z/, result["write"]["at"])
    end
  end

  # A database in memory is the process's own, and may be joined with one that is not; pages may be copied as they are.
  AROUND = { "attached" => "joined(FILE) { |db| db.execute('DELETE FROM other.visits') }", "attached by a batch" => "memory.execute_batch(\"ATTACH '\#{FILE}' AS other; DELETE FROM other.visits\")",
             "a new one" => "joined(\"\#{FILE}-new.sqlite3\") { |db| db.execute('CREATE TABLE other.t (a)') }", "backup" => "SQLite3::Backup.new(fresh, 'main', memory, 'main').step(-1)",
             "backup by one from before" => "SQLite3::Backup.new(OPEN, 'main', memory, 'main').step(-1)", "vacuum into" => "memory.execute(\"VACUUM INTO '\#{FILE}-new.sqlite3'\")",
             "vacuum of a file into" => "fresh.execute(\"VACUUM INTO '\#{FILE}-new.sqlite3'\")", "query_only" => "joined(FILE) { |db| db.execute('PRAGMA query_only = 0'); db.execute('DELETE FROM other.visits') }",
             "query_only behind a comment" => "loosened('/* a */ PRAGMA query_only = 0')", "behind a line's comment" => "loosened(\"-- a\\nPRAGMA query_only = 0\")", "behind a semicolon" => "loosened(';PRAGMA query_only = 0')",
             "of a schema" => "loosened('PRAGMA main . query_only = 0')", "in quotes" => "loosened('PRAGMA \"query_only\" = 0')", "with a comment within" => "loosened('PRAGMA/**/query_only/**/(0)')",
             "by a statement" => "fresh.tap { |db| SQLite3::Statement.new(db, 'PRAGMA query_only = 0').tap(&:step).close; db.execute('DELETE FROM visits') }",
             "in a batch of the library" => "fresh.execute_batch2('SELECT 1; PRAGMA query_only = 0; DELETE FROM visits')", "vacuum behind a comment" => "fresh.execute(\"/* a */ VACUUM INTO '\#{FILE}-new.sqlite3'\")" }.freeze
  JOINED = "def memory = SQLite3::Database.new(':memory:')\ndef joined(file) = memory.tap { |db| db.execute('ATTACH ? AS other', [file]); yield db }\n" \
           "def loosened(sql) = fresh.tap { |db| db.execute(sql); db.execute('DELETE FROM visits') }\n"

  def test_ways_around_of_sqlite
    ["", WITHOUT_KERNEL].each do |kernel|
      unchanged(kernel + RAW + JOINED, AROUND, "SQLite3::Exception") do |name, result|
        assert_match(/\ASQLite3::(?:ReadOnly|CantOpen)Exception\z/, result["text"], name)
        assert_equal "sql", result.dig("write", "kind"), name
      end
      allowed = { "memory" => "memory.tap { |db| db.execute(\"ATTACH ':memory:' AS other\") }.get_first_value(\"SELECT 'kept'\")",
                  "backup into memory" => "memory.tap { |db| SQLite3::Backup.new(db, 'main', fresh, 'main').step(-1) }.get_first_value('SELECT name FROM visits')" }
      allowed["read"] = "joined(FILE) { |db| db.execute('SELECT 1') }.get_first_value('SELECT name FROM other.visits')" if kernel.empty?
      unchanged(kernel + RAW + JOINED, allowed, "SQLite3::Exception") { |name, result| assert_equal ["kept", nil], result.values_at("text", "write"), name }
    end
  end

  # Readers of such a database write to an index beside it, which is not there while nobody has it open.
  def test_a_database_with_a_log_that_nobody_has_open
    head = "#{RAW}SQLite3::Database.new(FILE) { |db| db.execute('PRAGMA journal_mode = WAL') }\nOPEN.close\n"
    codes = { "read" => "fresh.get_first_value('SELECT name FROM visits')", "again" => "fresh.get_first_value('SELECT name FROM visits')",
              "sorted" => "fresh.get_first_value(\"WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 200000) SELECT 'kept' FROM n ORDER BY hex(i), i DESC\")" }
    unchanged(head, codes, "SQLite3::Exception") { |name, result| assert_equal ["kept", nil], result.values_at("text", "write"), name }
    unchanged(head, { "write" => "fresh.execute('DELETE FROM visits')" }, "SQLite3::Exception") { |_, result| assert_equal ["SQLite3::ReadOnlyException", "sql"], [result["text"], result.dig("write", "kind")] }
  end

  def test_reading_by_sqlite
    allowed = { "open before" => "OPEN.get_first_value('SELECT name FROM visits')", "open" => "fresh.get_first_value('SELECT name FROM visits')",
                "transaction" => "(n = nil; fresh.transaction { |db| n = db.get_first_value('SELECT name FROM visits') }; n)",
                "immediate" => "(n = nil; fresh.transaction(:immediate) { |db| n = db.get_first_value('SELECT name FROM visits') }; n)",
                "journal" => "(fresh.execute('PRAGMA journal_mode = WAL').flatten == ['delete']) && 'kept'",
                "memory" => "SQLite3::Database.new(':memory:').tap { |db| db.execute('CREATE TABLE a (b)'); db.execute('INSERT INTO a VALUES (?)', ['kept']) }.get_first_value('SELECT b FROM a')" }
    unchanged(RAW, allowed, "SQLite3::Exception") { |name, result| assert_equal ["kept", nil], result.values_at("text", "write"), name }
  end

  def test_activerecord
    refused = { "create" => "Visit.create!(name: 'secret')", "update" => "Visit.first.update!(name: 'secret')", "delete_all" => "Visit.delete_all", "update_all" => "Visit.update_all(name: 'secret')",
                "sql" => "Visit.connection.execute(\"INSERT INTO visits (name) VALUES ('secret')\")", "savepoint" => "Visit.transaction { Visit.transaction(requires_new: true) { Visit.create!(name: 'secret') } }",
                "schema" => "Visit.connection.add_column(:visits, :other, :string)",
                "allowed" => "ActiveRecord::Base.while_preventing_writes(false) { Visit.delete_all }",
                "another thread" => "Thread.new { Visit.connection_pool.with_connection { Visit.delete_all } }.tap { |t| t.report_on_exception = false }.join",
                "raw" => "SQLite3::Database.new(FILE).execute('DELETE FROM visits')" }
    unchanged(RECORD, refused, "ActiveRecord::ActiveRecordError, SQLite3::Exception") do |name, result|
      assert_match(/ReadOnly|StatementInvalid/, result["text"], name)
      assert_equal "sql", result.dig("write", "kind"), name
      assert_match(/INSERT INTO|UPDATE|DELETE FROM|ALTER TABLE/, result["write"]["what"], name)
      refute_match(/secret/, result["write"]["what"], name)
      assert_match(/\Aconfig\.ru:\d+\z/, result["write"]["at"], name)
    end
  end

  # SQLite would refuse it, too; on other databases nothing else would, in a thread that outlives its request.
  def test_activerecord_refuses_in_each_thread
    codes = { "another thread" => "Thread.new { Visit.connection_pool.with_connection { Visit.delete_all } }.tap { |t| t.report_on_exception = false }.join",
              "allowed" => "ActiveRecord::Base.while_preventing_writes(false) { Visit.delete_all }" }
    unchanged(RECORD, codes, "ActiveRecord::ActiveRecordError") do |name, result|
      assert_equal ["ActiveRecord::ReadOnlyError", "sql", "DELETE FROM \"visits\""], [result["text"], *result["write"]&.values_at("kind", "what")], name
    end
  end

  def test_reading_by_activerecord
    allowed = { "find" => "Visit.first.name", "transaction" => "Visit.transaction { Visit.first.name }", "sql" => "Visit.connection.select_value('SELECT name FROM visits')",
                "again" => "Visit.connection_pool.with_connection { |c| c.select_value('SELECT name FROM visits') }",
                "cache" => "Visit.cache { 2.times.map { Visit.first.name } }.uniq.join", "no change" => "Visit.first.tap(&:save!).name" }
    unchanged(RECORD, allowed, "ActiveRecord::ActiveRecordError") { |name, result| assert_equal ["kept", nil], result.values_at("text", "write"), name }
  end

  def test_others_can_write_while_a_request_reads
    app = "#{RECORD}#{routes("/" => "(Visit.first; %w[read written].each { |step| File.read(File.join(__dir__, step)) }; Visit.order(:id).last.name)")}"
    with_shadow(app) do |shadow, dir|
      read, written = %w[read written].map { |step| File.join(dir, step).tap { |path| File.mkfifo(path) } }
      shadow.tell(shadow.replay("/"))
      File.write(read, "")
      output, status = Open3.capture2e("sqlite3", File.join(dir, "shop.sqlite3"), "INSERT INTO visits (name) VALUES ('another')")
      File.write(written, "")
      assert_predicate status, :success?, output
      assert_equal "another", shadow.read["body"].unpack1("m")
    end
  end

  def test_a_patch_may_work_on_copies
    with_shadow("#{RECORD}#{routes("/" => "Visit.connection.select_values('PRAGMA database_list').inspect + Visit.connection.execute('PRAGMA database_list').inspect", "/write" => "(Visit.delete_all rescue 'rescued')")}") do |shadow, dir|
      assert_equal({ "ok" => true }, shadow.ask(do: "patch", name: "database_copy"))
      text = shadow.get("/")["text"]
      assert_match(/paceline-shadow/, text)
      refute_match(/#{dir}/, text)
      assert_equal ["rescued", "DELETE FROM \"visits\""], shadow.get("/write").then { |result| [result["text"], result.dig("write", "what")] }
    end
  end

  # PostgreSQL: a notification is no write to it, and must not reach anybody either.
  POSTGRESQL = <<~'RUBY'
    require "pg"
    OPTIONS = { host: ENV.fetch("TEST_PG_HOST"), dbname: "postgres", user: "postgres" }
    PG.connect(**OPTIONS) { |c| c.exec("DROP TABLE IF EXISTS visits; CREATE TABLE visits (id serial PRIMARY KEY, name text); INSERT INTO visits (name) VALUES ('kept')") }
    def raw = PG.connect(**OPTIONS)
  RUBY
  RECORD_POSTGRESQL = "#{POSTGRESQL}require 'active_record'\nActiveRecord::Base.establish_connection(adapter: 'postgresql', host: OPTIONS[:host], database: 'postgres', username: 'postgres')\n" \
                      "class Visit < ActiveRecord::Base; end\nVisit.first\n".freeze

  # Yields the shadow's answer to each code, and then a connection of ours.
  def on_postgresql(head, codes, &block)
    PostgreSQL.with do |server|
      answers = codes.values.each_with_index.to_h { |code, number| ["/#{number}", "begin; (#{code}); rescue PG::Error, ActiveRecord::ActiveRecordError => e; e.class.name; end"] }
      with_shadow("#{head}module ActiveRecord; class ActiveRecordError < StandardError; end; end unless defined?(ActiveRecord)\n#{routes(answers)}", env: { "TEST_PG_HOST" => server.host }) do |shadow|
        server.listen("told")
        codes.keys.each_with_index { |name, number| block.call(name, shadow.get("/#{number}")) }
        assert_equal [%w[1 kept]], server.query("SELECT id, name FROM visits")
        assert_equal [], server.notifications
      end
    end
  end

  def test_postgresql_without_activerecord
    on_postgresql(POSTGRESQL, "insert" => "raw.exec(\"INSERT INTO visits (name) VALUES ('secret')\")", "params" => "raw.exec_params('DELETE FROM visits WHERE id > $1', [0])",
                              "block" => "PG.connect(**OPTIONS) { |c| c.exec('DROP TABLE visits') }", "new" => "PG::Connection.new(**OPTIONS).exec('DELETE FROM visits')",
                              "reset" => "raw.tap(&:reset).exec('DELETE FROM visits')", "sequence" => "raw.exec(\"SELECT nextval('visits_id_seq')\")") do |name, result|
      assert_equal ["PG::ReadOnlySqlTransaction", "sql"], [result["text"], result.dig("write", "kind")], name
      assert_match(/cannot execute .* in a read-only transaction|\A(?:INSERT|DELETE|DROP)/, result["write"]["what"])
      assert_match(/\Aconfig\.ru:\d+\z/, result["write"]["at"])
    end
    on_postgresql(POSTGRESQL, "select" => "raw.exec('SELECT name FROM visits').getvalue(0, 0)") { |_, result| assert_equal ["kept", nil], result.values_at("text", "write") }
  end

  # Each by a connection of its own that then writes, by what PostgreSQL itself takes, and in all ways to send a statement.
  MODES = ["BEGIN READ WRITE", "START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ/**/WRITE", "SET default_transaction_read_only = off", "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
           'SET "default_transaction_read_only" TO \'off\'', "RESET default_transaction_read_only", "RESET ALL", "DISCARD ALL", "SELECT set_config('default_transaction_' || 'read_only', 'off', false)",
           "BEGIN; SET TRANSACTION READ WRITE", "BEGIN; SET LOCAL transaction_read_only = off", "BEGIN; SELECT set_config('transaction_' || 'read_only', 'off', true)",
           "SELECT loosen()", "BEGIN; SELECT loosen(); COMMIT", "DO 'BEGIN PERFORM loosen(); END'", "-- harmless\nSET default_transaction_read_only TO off"].freeze
  SENT = { "exec" => "->(c, sql) { c.exec(sql) }", "parameters" => "->(c, sql) { sql.split(';').each { |one| c.exec_params(one, []) } }",
           "prepared" => "->(c, sql) { sql.split(';').each { |one| c.prepare(name = rand.to_s, one); c.exec_prepared(name) } }",
           "sent" => "->(c, sql) { sql.split(';').each { |one| c.send_query(one); all = []; while (result = c.get_result) do all << result end; all.each(&:check) } }" }.freeze
  HARM = { "insert" => "INSERT INTO visits (name) VALUES ('secret')", "function" => "SELECT write_one()" }.freeze
  # What loosens the mode by a text that nobody reads, and what writes without a word of it.
  FUNCTIONS = <<~'RUBY'
    PG.connect(**OPTIONS) do |c|
      c.exec("CREATE OR REPLACE FUNCTION loosen() RETURNS void LANGUAGE plpgsql AS 'BEGIN PERFORM set_config(''default_transaction_read_only'', ''off'', false); END'")
      c.exec("CREATE OR REPLACE FUNCTION write_one() RETURNS void LANGUAGE plpgsql AS 'BEGIN INSERT INTO visits (name) VALUES (''secret''); END'")
    end
    def tried
      yield
    rescue PG::Error
      nil
    end
  RUBY

  def test_no_session_on_postgresql_gets_another_mode
    codes = MODES.product(SENT.keys, HARM.keys).to_h do |mode, sent, harm|
      ["#{mode} by #{sent}, then #{harm}", "c = raw; send = #{SENT.fetch(sent)}; begin; tried { send.(c, #{mode.inspect}) }; send.(c, #{HARM.fetch(harm).inspect}); tried { c.exec('COMMIT') }; ensure; c.finish; end"]
    end
    on_postgresql(POSTGRESQL + FUNCTIONS, codes) do |name, result|
      assert_match(/\APG::/, result["text"], name)
      # Where PostgreSQL itself refused the mode, the transaction has failed.
      assert_equal "sql", result.dig("write", "kind"), name unless result["text"] == "PG::InFailedSqlTransaction"
    end
  end

  EFFECTS = ["SELECT pg_advisory_lock(1)", "SELECT pg_try_advisory_xact_lock(1)", "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
             'SELECT "pg_cancel_backend" (1)', "NOTIFY told, 'x'", "SELECT pg_notify('told', 'x')", "SELECT E'\\'', pg_notify('told', 'x')", "LOCK TABLE visits IN ACCESS SHARE MODE", "VACUUM visits",
             "SELECT lo_create(0)", "COPY visits TO '/tmp/paceline-shadow-copy'", "COPY visits TO PROGRAM 'cat'", "SELECT query_to_xml('SELECT pg_advisory_lock(1)', false, false, '')",
             "SELECT * FROM pg_stat_reset()", "SELECT 1; SELECT pg_notify('told', 'x')", "PREPARE a AS SELECT pg_notify('told', 'x')", "PREPARE TRANSACTION 'x'",
             "SELECT U&\"\\0070g_notify\"('told', 'x')", "DO 'BEGIN PERFORM pg_notify(''told'', ''x''); END'", "CHECKPOINT", "ALTER SYSTEM SET work_mem = '5MB'",
             # A name for words, a comment that ends as a line of an old Mac does, a text that goes on.
             "COPY (SELECT 1 AS \"to stdout\") TO '/tmp/paceline-shadow-copy'", "COPY (WITH \"to\" AS (SELECT 1) SELECT * FROM \"to\" stdout) TO PROGRAM 'cat'", "SELECT 1 --\r, pg_notify('told', 'x')",
             "SELECT E'a'\n'\\'', pg_notify('told', 'x')", "SELECT E'a' -- b\n'\\'', pg_notify('told', 'x')", "SELECT E'a'\n/* b */'\\'', pg_notify('told', 'x')",
             "SELECT * FROM ts_stat('SELECT to_tsvector(pg_advisory_lock(1)::text)')", "SELECT ts_rewrite('a'::tsquery, 'SELECT ''a''::tsquery, pg_notify(''a'', ''b'')::text::tsquery')",
             "SELECT brin_summarize_new_values('visits_pkey')", "SELECT gin_clean_pending_list('visits_pkey')"].freeze

  # What PostgreSQL lets a read-only transaction do to others.
  def test_what_is_no_write_to_postgresql
    codes = EFFECTS.to_h { |sql| [sql, "c = raw; begin; c.exec(#{sql.inspect}); ensure; c.finish; end"] }.merge(
      "a large object" => "raw.lo_creat", "a pipeline" => "raw.enter_pipeline_mode", "a character with a backslash" => "raw.tap { |c| c.set_client_encoding('SJIS') }.exec(\"SELECT E'\\x95\\x5c', pg_notify('told', 'x') --'\".b)",
      "a text that changes" => "raw.exec(Class.new(String) { def to_s = 'SELECT 1' }.new(\"SELECT pg_notify('told', 'x')\"))"
    )
    on_postgresql(POSTGRESQL, codes) { |name, result| assert_equal ["PG::ReadOnlySqlTransaction", "sql"], [result["text"], result.dig("write", "kind")], name }
    refute_path_exists "/tmp/paceline-shadow-copy"
    reads = ["SELECT 'pg_advisory_lock(1)', name FROM visits", "SELECT $a$pg_notify($a$, name FROM visits", "/* NOTIFY told; */ SELECT 1, name FROM visits -- pg_notify(",
             "WITH a AS (SELECT 1, name FROM visits) TABLE a", "SELECT 1 AS \"to stdout\", name FROM visits", "SELECT E'a\\'b', name FROM visits -- 'c'", "SET search_path TO public; SELECT 1, name FROM visits", "BEGIN; SELECT 1, name FROM visits", "SELECT '\\', name FROM visits --'"]
    on_postgresql(POSTGRESQL, reads.to_h { |sql| [sql, "raw.exec(#{sql.inspect}).getvalue(0, 1)"] }) { |name, result| assert_equal ["kept", nil], result.values_at("text", "write"), name }
    steps = "(c = PG::Connection.connect_start(**OPTIONS); nil until c.connect_poll == PG::PGRES_POLLING_OK; c"
    on_postgresql(POSTGRESQL, "insert" => "#{steps}.exec(\"INSERT INTO visits (name) VALUES ('secret')\"))", "select" => "#{steps}.exec('SELECT name FROM visits').getvalue(0, 0))") do |name, result|
      assert_equal(name == "select" ? "kept" : "PG::ReadOnlySqlTransaction", result["text"])
    end
  ensure
    FileUtils.rm_f("/tmp/paceline-shadow-copy")
  end

  # Where the roles of a handler are its own, as `load_defaults "6.1"` has it, another word names all of them than in Rails 7.1: the connection of a request
  # stayed in its thread's hands, and the next request began no transaction.
  def test_each_request_is_a_transaction_of_its_own
    codes = %w[one two three].to_h { |name| [name, "(Visit.first; Visit.connection.open_transactions)"] }
    roles = "require 'active_record'\nActiveRecord::Base.legacy_connection_handling = false if ActiveRecord::Base.respond_to?(:legacy_connection_handling=)\n"
    ["", roles].each { |head| on_postgresql(head + RECORD_POSTGRESQL, codes) { |name, result| assert_equal "1", result["text"], name } }
  end

  # It is the preloader's, whose other end hears nothing of the shadow.
  def test_a_connection_from_before_the_fork
    on_postgresql("#{POSTGRESQL}BEFORE = raw\n", "insert" => "BEFORE.exec(\"INSERT INTO visits (name) VALUES ('secret')\")",
                                                 "reset" => "BEFORE.tap(&:reset).exec('DELETE FROM visits')") do |name, result|
      assert_match(/\APG::/, result["text"], name)
      assert_equal "sql", result.dig("write", "kind"), name
    end
  end

  def test_activerecord_on_postgresql
    on_postgresql(RECORD_POSTGRESQL, "create" => "Visit.create!(name: 'secret')", "sql" => "Visit.connection.execute(\"SELECT nextval('visits_id_seq')\")",
                                     "with" => "Visit.connection.execute('WITH gone AS (DELETE FROM visits RETURNING *) SELECT * FROM gone')",
                                     "allowed" => "ActiveRecord::Base.while_preventing_writes(false) { Visit.delete_all }") do |name, result|
      assert_match(/ReadOnlyError|StatementInvalid/, result["text"], name)
      assert_equal "sql", result.dig("write", "kind"), name
    end
    reads = { "first" => "Visit.first.name", "again" => "Visit.transaction { Visit.first.name }", "begin" => "(raw = Visit.connection.raw_connection; raw.exec('SAVEPOINT a'); raw.exec('ROLLBACK TO a'); Visit.first.name)",
              "reconnect" => "(Visit.connection.reconnect!; Visit.first.name)" }
    on_postgresql(RECORD_POSTGRESQL, reads) { |name, result| assert_equal ["kept", nil], result.values_at("text", "write"), name }
  end

  # A pooler tells its client another number than the server does.
  def test_postgresql_behind_a_pooler
    pooler = "class PG::Connection\n  def backend_pid = -1\nend\n"
    on_postgresql(POSTGRESQL + pooler, "raw" => "raw") { |_, result| assert_equal "PG::ConnectionBad", result["text"] }
    on_postgresql(RECORD_POSTGRESQL + pooler, "read" => "Visit.first.name") { |_, result| assert_equal ["kept", nil], result.values_at("text", "write") }
    on_postgresql(RECORD_POSTGRESQL + pooler, "write" => "Visit.connection.execute(\"SELECT nextval('visits_id_seq')\")",
                                              "session" => "Visit.connection.select_value('SHOW default_transaction_read_only')") do |name, result|
      name == "session" ? assert_equal("off", result["text"], "others would have it, too") : assert_equal("sql", result.dig("write", "kind"))
    end
  end
end
