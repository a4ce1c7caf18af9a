# frozen_string_literal: true

require_relative "support/shadow_case"
require "paceline/server/shadow/write_notes"

# What is sent to MySQL by mysql2 and trilogy, whatever uses them: reads, on connections of the shadow's own. The libraries are stand-ins that say what they are asked.
class ShadowMySQLTest < ShadowCase
  LIBRARIES = <<~RUBY
    class Trilogy
      attr_reader :outside
      def initialize = @outside = defined?(Paceline::Server::Shadow::Confinement) && Paceline::Server::Shadow::Confinement.outside?
      def query(sql) = "sent \#{sql}"
    end
    module Mysql2
      class Error < StandardError; end
      class Client
        attr_accessor :automatic_close
        attr_reader :outside
        def initialize = connect
        private def connect = @outside = defined?(Paceline::Server::Shadow::Confinement) && Paceline::Server::Shadow::Confinement.outside?
        def query(sql, options = {}) = "sent \#{sql} \#{options[:as]}".strip
        def prepare(sql) = "prepared \#{sql}"
      end
    end
    BEFORE = Mysql2::Client.new
    def outcome
      yield.to_s
    rescue StandardError => e
      "\#{e.class}: \#{e.message}"
    end
  RUBY
  REFUSED = "a shadow of paceline doctor does not write"

  def answers(codes)
    paths = codes.keys.each_with_index.to_h { |code, number| ["/#{number}", "outcome { #{code} }"] }
    with_shadow("#{LIBRARIES}#{routes(paths)}") do |shadow|
      codes.each_with_index { |(code, expected), number| yield code, expected, shadow.get("/#{number}") }
    end
  end

  def test_reads_are_sent
    reads = ["SELECT 1", "/* app */ (select 1)", "-- app\\nSHOW TABLES", "SET NAMES utf8mb4", "SET @@SESSION.wait_timeout = 9", "WITH a AS (SELECT 1) SELECT * FROM a", "BEGIN", "ROLLBACK", "START TRANSACTION READ ONLY", "SELECT 'FOR UPDATE; DELETE', `a;b` FROM t;",
             "SELECT /*+ MAX_EXECUTION_TIME(9) */ 'it\\\\'s'", "# app\\nSELECT 1"]
    codes = reads.to_h { |sql| ["Mysql2::Client.new.query(\"#{sql}\")", "sent #{sql.gsub("\\n", "\n").gsub("\\\\", "\\")}"] }
    more = { "Mysql2::Client.new.query('SELECT 1', as: :array)" => "sent SELECT 1 array", "Mysql2::Client.new.prepare('SELECT 1')" => "prepared SELECT 1", "Trilogy.new.query('SELECT 1')" => "sent SELECT 1", "Trilogy.new.query(\"SELECT a\\xff\").bytesize" => "14" }
    answers(codes.merge(more)) { |code, expected, result| assert_equal [expected, nil], result.values_at("text", "write"), code }
  end

  def test_writes_are_refused_and_noted
    writes = ["INSERT INTO visits VALUES ('secret')", "/*!50000 DELETE FROM visits */", "SET GLOBAL a = 1", "WITH a AS (SELECT 1) DELETE FROM visits", "SELECT * FROM visits FOR UPDATE", "CALL count_visit()", "LOCK TABLES visits WRITE",
              # By a second statement, within a comment or beside one, by words that begin otherwise, and by functions.
              "SELECT 1; DELETE FROM visits", "SELECT 1 #;\\n; DELETE FROM visits", "SELECT 1 --x\\n; DELETE FROM visits", "SELECT 1 INTO/**/OUTFILE '/tmp/x'", "SELECT 1 FOR/* a */UPDATE",
              "SELECT /*!99999 1 -- */ INTO OUTFILE '/tmp/x'", "SELECT '\\\\'; DELETE FROM visits -- '", "SELECT 'a\\\\'; DELETE FROM visits; -- '", "SET STATEMENT max_statement_time = 1 FOR DELETE FROM visits",
              "BEGIN NOT ATOMIC DELETE FROM visits; END", "START REPLICA", "SET DEFAULT ROLE a TO b", "SELECT NEXT VALUE FOR numbers", "SELECT GET_LOCK('a', 1)", "SELECT `nextval`(numbers)"]
    codes = writes.to_h { |sql| ["Mysql2::Client.new.query(\"#{sql}\")", "Mysql2::Error: #{REFUSED}"] }
    more = { "Mysql2::Client.new.prepare('DELETE FROM visits')" => "Mysql2::Error: #{REFUSED}", "Trilogy.new.query('INSERT INTO visits VALUES (\"secret\")')" => "Errno::EROFS: Read-only file system - #{REFUSED}" }
    answers(codes.merge(more)) do |code, expected, result|
      assert_equal [expected, "sql"], [result["text"], result.dig("write", "kind")], code
      refute_match(/secret/, result["write"]["what"], code)
      assert_match(/\Aconfig\.ru:\d+\z/, result["write"]["at"], code)
    end
  end

  # The kernel would let them connect to nothing.
  def test_connections_are_opened_outside
    answers("Mysql2::Client.new.outside" => "true", "Trilogy.new.outside" => "true") { |code, expected, result| assert_equal expected, result["text"], code }
  end

  # Its answers would get mixed with those to the process that has opened it.
  def test_a_connection_from_before_the_fork_is_not_used
    message = "Mysql2::Error: this connection was opened before the shadow was forked"
    answers("BEFORE.query('SELECT 1')" => message, "BEFORE.prepare('SELECT 1')" => message) do |code, expected, result|
      assert_equal [expected, nil], result.values_at("text", "write"), code
    end
    answers("BEFORE.automatic_close.inspect" => "false") { |_, expected, result| assert_equal expected, result["text"], "no good-bye for the preloader" }
  end

  def test_no_value_is_told_where_a_quote_may_be_escaped
    notes = Paceline::Server::Shadow::WriteNotes.new("/app")
    Paceline::Server::Shadow::CurrentRequest.start
    notes.add("sql", "INSERT INTO visits VALUES ('it\\'s a secret', 7)")
    assert_equal "INSERT INTO visits VALUES (?", notes.to_h["what"]
  end
end
