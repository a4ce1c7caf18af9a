# frozen_string_literal: true

require "helper"
require "paceline/auto_cache"

# Which writes are announced, and when: before others can see them, whatever becomes of the transaction.
class AutoCacheTransactionsTest < Paceline::Test
  # A front that notes what it is told, and what ran in between.
  class Notes
    attr_reader :lines

    def initialize = @lines = []

    def intend(entries)
      lines << [:intend, entries.map { |sql, _, generated| generated ? "#{sql} #{generated.join("=")}" : sql }]
      lines.size
    end

    def done(_, how) = lines << [:done, how]

    def intend_keys(keys)
      lines << [:keys, *keys]
      lines.size
    end
  end

  def setup
    @notes = Paceline::AutoCache.journal = Notes.new
    @connection = Paceline::AutoCache::Transactions.new
  end

  def teardown
    Paceline::AutoCache.journal = nil
  end

  def run_all(*statements)
    statements.each { |sql| @connection.run(sql, []) { @notes.lines << sql } }
    @notes.lines
  end

  def test_a_statement_of_its_own
    assert_equal ["SELECT 1", [:intend, ["DELETE FROM a"]], "DELETE FROM a", [:done, "commit"]], run_all("SELECT 1", "DELETE FROM a")
  end

  def test_a_transaction_is_announced_at_its_commit
    lines = run_all("begin transaction", "DELETE FROM a", "SELECT 1", "INSERT INTO b DEFAULT VALUES", "commit transaction")
    assert_equal [[:intend, ["DELETE FROM a", "INSERT INTO b DEFAULT VALUES"]], "commit transaction", [:done, "commit"]], lines.last(3)
    assert_equal 2, lines.grep(Array).size
    assert_equal ["BEGIN", "SELECT 1", "COMMIT"], run_all("BEGIN", "SELECT 1", "COMMIT").last(3)
  end

  def test_what_is_rolled_back_is_never_announced
    assert_empty run_all("BEGIN", "DELETE FROM a", "ROLLBACK").grep(Array)
    lines = run_all("BEGIN", "DELETE FROM a", "SAVEPOINT one", "DELETE FROM b", "SAVEPOINT two", "DELETE FROM c", "RELEASE SAVEPOINT two",
                    "ROLLBACK TO SAVEPOINT one", "DELETE FROM d", "COMMIT")
    assert_equal [[:intend, ["DELETE FROM a", "DELETE FROM d"]], [:done, "commit"]], lines.grep(Array)
  end

  def test_a_transaction_that_begins_within_a_statement
    @connection.run("DELETE FROM a", []) { run_all("BEGIN") }
    assert_equal [[:intend, ["DELETE FROM a"]], [:done, "commit"]], run_all("COMMIT").grep(Array).last(2)
    assert_equal 4, @notes.lines.grep(Array).size
  end

  def test_a_savepoint_begins_a_transaction
    assert_equal [[:intend, ["DELETE FROM a"]], [:done, "commit"]], run_all("SAVEPOINT one", "DELETE FROM a", "COMMIT").grep(Array)
  end

  def test_a_commit_that_begins_the_next_transaction
    lines = run_all("BEGIN", "DELETE FROM a", "COMMIT AND CHAIN", "DELETE FROM b", "COMMIT")
    assert_equal [[:intend, ["DELETE FROM a"]], "COMMIT AND CHAIN", [:done, "commit"], "DELETE FROM b", [:intend, ["DELETE FROM b"]], "COMMIT", [:done, "commit"]],
                 lines.last(7)
    @notes.lines.clear
    lines = run_all("BEGIN", "DELETE FROM a", "COMMIT AND NO CHAIN", "DELETE FROM b")
    assert_equal [[:intend, ["DELETE FROM b"]], "DELETE FROM b", [:done, "commit"]], lines.last(3)
    @notes.lines.clear
    lines = run_all("BEGIN", "DELETE FROM a", "ROLLBACK WORK AND CHAIN", "DELETE FROM b", "COMMIT")
    assert_equal [[:intend, ["DELETE FROM b"]], [:done, "commit"]], lines.grep(Array)
  end

  def test_a_commit_in_two_phases
    assert_empty run_all("BEGIN", "DELETE FROM a", "PREPARE TRANSACTION 'x'").grep(Array)
    assert_equal [[:intend, ["DELETE FROM b"]], "DELETE FROM b", [:done, "commit"]], run_all("DELETE FROM b").last(3)
    assert_equal [[:intend, ["UNKNOWN"]], "COMMIT PREPARED 'x'", [:done, "commit"]], run_all("COMMIT PREPARED 'x'").last(3)
  end

  def test_the_savepoint_that_began_a_transaction_ends_it
    lines = run_all("SAVEPOINT one", "DELETE FROM a", "SAVEPOINT one", "DELETE FROM b", "RELEASE one", "RELEASE SAVEPOINT one")
    assert_equal [[:intend, ["DELETE FROM a", "DELETE FROM b"]], "RELEASE SAVEPOINT one", [:done, "commit"]], lines.last(3)
    assert_equal 2, lines.grep(Array).size
    @notes.lines.clear
    assert_empty run_all("BEGIN", "SAVEPOINT one", "DELETE FROM a", "RELEASE one").grep(Array)
    assert_equal [[:intend, ["DELETE FROM a"]], [:done, "commit"]], run_all("COMMIT").grep(Array)
  end

  # A connection of PG's, whose methods note that they are called.
  def raw
    require "paceline/auto_cache/drivers"
    notes = @notes
    Class.new do
      %i[exec exec_prepared send_query send_query_prepared put_copy_data put_copy_end reset].each do |name|
        define_method(name) { |*| notes.lines << name }
      end
      prepend Paceline::AutoCache::Drivers::Postgres
    end.new
  end

  def test_what_is_only_sent
    connection = raw
    connection.exec("DELETE FROM a")
    assert_equal [:done, "commit"], @notes.lines.last
    calls = { send_query: "DELETE FROM a", send_query_prepared: "one", put_copy_data: "1\n", put_copy_end: nil }
    calls.each do |name, argument|
      @notes.lines.clear
      connection.public_send(name, *argument)
      assert_equal [:intend, name, [:done, "unknown"]], [@notes.lines[0][0], *@notes.lines.drop(1)]
    end
  end

  # The connection was there before it was followed, and knows only the name.
  def test_a_read_of_active_record_by_a_name
    connection = raw
    adapter = Class.new do
      def log(*) = yield
      prepend Paceline::AutoCache::Drivers::Adapter
    end
    adapter.new.send(:log, "SELECT 1") { connection.exec_prepared("a1") }
    assert_equal [:exec_prepared], @notes.lines
    connection.exec_prepared("a1")
    assert_equal [:intend, ["EXECUTE unknown"]], @notes.lines[1]
  end

  def test_a_connection_that_is_reset
    connection = raw
    connection.exec("BEGIN")
    connection.exec("DELETE FROM a")
    connection.reset
    @notes.lines.clear
    connection.exec("DELETE FROM b")
    assert_equal [[:intend, ["DELETE FROM b"]], :exec, [:done, "commit"]], @notes.lines
  end

  def test_a_commit_whose_answer_is_lost
    run_all("BEGIN", "DELETE FROM a")
    assert_raises(IOError) { @connection.run("COMMIT", []) { raise IOError } }
    assert_equal [[:intend, ["DELETE FROM a"]], [:done, "unknown"]], @notes.lines.grep(Array)
  end

  def test_a_thread_that_is_killed_within_a_commit
    run_all("BEGIN", "DELETE FROM a")
    Thread.new { @connection.run("COMMIT", []) { Thread.current.kill } }.join
    assert_equal [:done, "unknown"], @notes.lines.last
  end

  def test_several_statements_in_one_text
    lines = run_all("DELETE FROM a; DELETE FROM b")
    assert_equal [[:intend, ["DELETE FROM a; DELETE FROM b"]], [:done, "commit"]], lines.grep(Array)
    # It may have begun a transaction: each write is told at once, and again at the commit.
    @notes.lines.clear
    lines = run_all("BEGIN; DELETE FROM c", "DELETE FROM d", "COMMIT")
    assert_equal [["BEGIN; DELETE FROM c"], ["DELETE FROM d"], ["BEGIN; DELETE FROM c", "DELETE FROM d"]], lines.grep(Array).map(&:last).grep(Array)
    @notes.lines.clear
    # Transactions are known again afterwards.
    assert_empty run_all("BEGIN", "DELETE FROM e", "ROLLBACK").grep(Array)
  end

  def test_the_key_of_an_inserted_row
    run_all("BEGIN", "INSERT INTO a (b) VALUES (1)")
    @connection.generated("id", 7)
    assert_equal [:intend, ["INSERT INTO a (b) VALUES (1) id=7"]], run_all("COMMIT").grep(Array).first
  end

  def test_a_lost_connection_has_committed_nothing
    run_all("BEGIN", "DELETE FROM a")
    @connection.reset
    assert_equal [[:intend, ["DELETE FROM b"]], [:done, "commit"]], run_all("DELETE FROM b").grep(Array)
  end

  def test_more_statements_than_are_kept
    { ["DELETE FROM a"] * 1001 => "UNKNOWN", ["CREATE TABLE b (c)", *["DELETE FROM a"] * 1000] => "ALTER", [*["DELETE FROM a"] * 1000, "DROP TABLE b"] => "ALTER",
      ["DROP TABLE b", *["DELETE FROM a"] * 2000] => "ALTER" }.each do |statements, first|
      @notes.lines.clear
      entries = run_all("BEGIN", *statements, "COMMIT").grep(Array).first.last
      assert_equal [first, 1000], [entries.first, entries.size]
    end
  end

  def test_a_change_of_the_schema_of_which_nobody_knows_what_came_is_told_later
    due = Process.clock_gettime(Process::CLOCK_MONOTONIC) + Paceline::AutoCache::AFTERMATH
    late = ->(at) { Paceline::AutoCache.send(:late?, at) }
    run_all("DELETE FROM a", "DROP TABLE a")
    refute late.call(due + 60)
    assert_raises(IOError) { @connection.run("DROP TABLE a", []) { raise IOError } }
    refute late.call(due - 1)
    assert late.call(due + 60)
    refute late.call(due + 60), "once"
  end

  def test_writes_of_a_cache_are_told_before_and_after
    require "paceline/auto_cache/rails"
    notes = @notes
    store = Class.new do
      define_method(:normalize_key) { |key, _| "shop:#{key}" }
      define_method(:write) { |key, value| notes.lines << [:write, key, value] }
      define_method(:clear) { notes.lines << [:clear] }
      define_method(:delete) { |_| raise IOError }
      prepend Paceline::AutoCache::Rails::CacheStore
    end
    store.new.write("posts", 1)
    assert_equal [[:keys, "shop:posts"], [:write, "posts", 1], [:done, "commit"]], notes.lines
    notes.lines.clear
    store.new.clear
    assert_equal [[:keys, "*"], [:clear], [:done, "commit"]], notes.lines
    # Whether it happened nobody knows.
    assert_raises(IOError) { store.new.delete("posts") }
    assert_equal [:done, "unknown"], notes.lines.last
  end

  # A front that answers each INTENT and READING.
  def front(path)
    server = UNIXServer.new(path)
    frames = Thread::Queue.new
    thread = Thread.new do
      socket = server.accept
      while (head = socket.read(5))
        length, type = head.unpack("NC")
        payload = socket.read(length)
        frames << [type, payload]
        id = payload[/\A[^\0]*\0/]
        socket.write([id.bytesize, Paceline::AutoCache::Journal::ACK].pack("NC") + id) if [0x61, 0x63].include?(type)
      end
      frames << :end
    end
    yield frames
  ensure
    server&.close
    thread&.join
  end

  def test_a_schema_is_read_after_the_front_has_answered
    in_tmpdir do |dir|
      path = File.join(dir, "journal.sock")
      front(path) do |frames|
        journal = Paceline::AutoCache::Journal.new(path)
        journal.schema do
          assert_equal [0x63, "#{Process.pid}-1\0"], frames.pop
          assert_empty frames
          "D\0sqlite\0"
        end
        assert_equal [0x64, "#{Process.pid}-1\0D\0sqlite\0"], frames.pop
        journal.schema { nil }
        journal.close
        assert_equal [[0x63, "#{Process.pid}-2\0"], :end], Array.new(2) { frames.pop }
      end
      Paceline::AutoCache::Journal.new(path).schema { flunk "nobody listens" }
    end
  end

  def test_the_journal
    in_tmpdir do |dir|
      path = File.join(dir, "journal.sock")
      front(path) do |frames|
        journal = Paceline::AutoCache.journal = Paceline::AutoCache::Journal.new(path)
        @connection.run("BEGIN", []) { nil }
        @connection.run("INSERT INTO a (b) VALUES (?)", ["x"]) { nil }
        @connection.generated("id", 7)
        committed = false
        @connection.run("COMMIT", []) do
          # The front knows before the commit.
          assert_equal [0x61, "#{Process.pid}-1\0S\0\0INSERT INTO a (b) VALUES (?)\x001\0tx\0G\0\0id\0i7\0"], frames.pop
          committed = true
        end
        assert committed
        assert_equal [0x62, "#{Process.pid}-1\0commit\0"], frames.pop
        journal.done(journal.intend_keys(["posts/all", "tags"]), "unknown")
        assert_equal [0x61, "#{Process.pid}-2\0K\0\0posts/all\0K\0\0tags\0"], frames.pop
        assert_equal [0x62, "#{Process.pid}-2\0unknown\0"], frames.pop
        journal.intend([["x" * (5 << 20), [], nil]])
        assert_equal [0x61, "#{Process.pid}-3\0S\0\0UNKNOWN\0000\0"], frames.pop, "more than a frame may have"
        journal.intend_keys(Array.new(5000, &:to_s))
        assert_equal [0x61, "#{Process.pid}-4\0K\0\0*\0"], frames.pop, "more entries than a frame may have"
        journal.close
        assert_equal :end, frames.pop
      end
      # Without a front, the application goes on.
      result = @connection.run("DELETE FROM a", []) { :done }
      assert_equal :done, result
    end
  end

  def test_an_answer_in_pieces_behind_another_one
    in_tmpdir do |dir|
      path = File.join(dir, "journal.sock")
      server = UNIXServer.new(path)
      journal = Paceline::AutoCache::Journal.new(path)
      told = Thread.new { journal.intend([["DELETE FROM a", [], nil]]) }
      socket = server.accept
      length, = socket.read(5).unpack("NC")
      id = socket.read(length)[/\A[^\0]*\0/]
      ack = ->(text) { [text.bytesize, Paceline::AutoCache::Journal::ACK].pack("NC") + text }
      (ack.call("other\0") + ack.call(id)).each_char do |byte|
        assert told.alive?
        socket.write(byte)
      end
      assert_equal id.chomp("\0"), told.value
      assert_predicate journal, :open?
      # A front that goes away in between.
      told = Thread.new { journal.intend([["DELETE FROM a", [], nil]]) }
      socket.read(5)
      socket.close
      told.join
      refute_predicate journal, :open?
    ensure
      server&.close
    end
  end

  def test_a_front_that_does_not_read
    in_tmpdir do |dir|
      server = UNIXServer.new(File.join(dir, "journal.sock"))
      journal = Paceline::AutoCache::Journal.new(File.join(dir, "journal.sock"))
      told = Thread.new { journal.intend([["x" * (3 << 20), [], nil]]) }
      assert told.join(60), "a write that never ends"
      refute_predicate journal, :open?
    ensure
      told&.kill
      server&.close
    end
  end

  def test_the_socket_of_a_server_that_is_gone
    in_tmpdir do |dir|
      old, new = %w[old new].map { |name| File.join(dir, name) }
      UNIXServer.new(old).close
      server = UNIXServer.new(new)
      journal = Paceline::AutoCache::Journal.new { [File.join(dir, "none"), old, new] }
      assert_silent { journal.open }
      assert_predicate journal, :open?
    ensure
      server&.close
    end
  end

  def frame(socket)
    length, type = socket.read(5).unpack("NC")
    [type, socket.read(length)]
  end

  def acknowledge(socket, text) = socket.write([text.bytesize, Paceline::AutoCache::Journal::ACK].pack("NC") + text)

  def test_a_process_that_could_not_connect_says_so_when_it_can
    in_tmpdir do |dir|
      path = File.join(dir, "journal.sock")
      File.symlink(path, path)
      journal = Paceline::AutoCache::Journal.new(path)
      refute_predicate journal, :joins?
      capture_io { refute journal.join("r1") }
      assert_predicate journal, :joins?
      File.delete(path)
      server = UNIXServer.new(path)
      joined = Thread.new { journal.join("r1") }
      socket = server.accept
      assert_equal [Paceline::AutoCache::Journal::RELEASE, "r1\0missed\0"], frame(socket)
      acknowledge(socket, "r1\0")
      assert joined.value
      assert journal.join("r1"), "it has said it"
      joined = Thread.new { journal.join("") }
      assert_equal "\0", frame(socket).last
      acknowledge(socket, "\0")
      assert joined.value

      # The connection is lost, and there is no other one: the front is given the time to see that.
      journal.close
      File.delete(path)
      File.symlink(path, path)
      slept = []
      journal.define_singleton_method(:sleep) { |seconds| slept << seconds }
      journal.intend([["DELETE FROM a", [], nil]])
      assert_operator slept.sum, :>, 0
    ensure
      server&.close
    end
  end

  def test_a_socket_that_can_not_be_opened
    in_tmpdir do |dir|
      # As without the right to open it, which root always has.
      loop_of_links = File.join(dir, "journal.sock")
      File.symlink(loop_of_links, loop_of_links)
      journal = Paceline::AutoCache::Journal.new(loop_of_links)
      _, said = capture_io { 2.times { journal.open } }
      assert_equal 1, said.scan("#{loop_of_links} can't be opened (").size, said
    end
  end
end
