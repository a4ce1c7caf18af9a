# frozen_string_literal: true

require "helper"
require "tmpdir"
require "timeout"
require "pstore"
require "paceline/pstore"

# What a PStore promises and drop-ins get wrong, one by one.
class PStoreTest < Minitest::Test
  def setup
    skip "there is no store without the native part" unless Paceline::Native
    @folder = Dir.mktmpdir
    @file = File.join(@folder, "app.pstore")
  end

  def teardown
    FileUtils.rm_rf(@folder) if @folder
  end

  Missing = Struct.new(:value)

  def test_what_is_changed_in_place_is_saved_without_being_set
    store.transaction { |s| s[:list] = [1]; s[:text] = +"a" }
    store.transaction { |s| s[:list] << 2; s.fetch(:text) << "b" }
    assert_equal [[1, 2], "ab"], read { |s| [s[:list], s[:text]] }
  end

  def test_one_object_under_two_roots_stays_one
    store.transaction { |s| s[:one] = s[:other] = [1] }
    store.transaction { |s| s[:one] << 2 }
    assert_equal [1, 2], read { |s| s[:other] }
    assert read { |s| s[:one].equal?(s[:other]) }
    # And when one of them leaves.
    store.transaction { |s| s[:one] = [9] }
    store.transaction { |s| s[:other] << 3 }
    assert_equal [[9], [1, 2, 3]], read { |s| [s[:one], s[:other]] }
  end

  def test_a_name_stays_as_it_was_first_written
    store.transaction { |s| s["name".encode("US-ASCII")] = 1 }
    store.transaction { |s| s["name"] += 1 }
    assert_equal [["name", Encoding::US_ASCII, 2]], read { |s| s.keys.map { |name| [name, name.encoding, s[name]] } }
    store.transaction { |s| s["name"] = s["other"] = [1] }
    assert_equal [Encoding::US_ASCII, Encoding::UTF_8], read { |s| s.keys.map(&:encoding) }
  end

  def test_what_is_not_changed_is_not_written
    store.transaction { |s| s[:a] = { list: ["x"] * 100 } }
    before = File.mtime(@file)
    content = File.binread(@file)
    store.transaction { |s| s[:a][:list].map(&:upcase) }
    assert_equal [content, before], [File.binread(@file), File.mtime(@file)]
    store.transaction { |s| s[:a][:list] << "y" }
    refute_equal content, File.binread(@file)
  end

  def test_an_exception_and_abort_write_nothing_commit_writes
    store.transaction { |s| s[:a] = [1] }
    assert_raises(RuntimeError) { store.transaction { |s| s[:a] << 2; s[:b] = 1; raise "no" } }
    store.transaction { |s| s[:a] << 3; s.abort }
    catch(:away) { store.transaction { |s| s[:a] << 4; throw :away } }
    assert_equal [[1], false], read { |s| [s[:a], s.root?(:b)] }
    store.transaction { |s| s[:a] << 5; s.commit; flunk "commit ends the transaction" }
    assert_equal [1, 5], read { |s| s[:a] }
  end

  def test_a_class_that_is_missing_breaks_only_its_own_root
    store.transaction { |s| s[:good] = 1; s[:bad] = Missing.new(2); s[:also] = 3 }
    gone = PStoreTest.send(:remove_const, :Missing)
    store.transaction do |s|
      assert_equal [1, 3, %i[good bad also]], [s[:good], s[:also], s.roots]
      # Marshal's ArgumentError, or what ActiveSupport makes of it where that is loaded.
      assert_match(/PStoreTest::Missing/, assert_raises(ArgumentError, NameError) { s[:bad] }.message)
      s[:good] = 2
    end
    PStoreTest.const_set(:Missing, gone)
    assert_equal [2, 2], read { |s| [s[:good], s[:bad].value] }
  ensure
    PStoreTest.const_set(:Missing, gone) if gone && !PStoreTest.const_defined?(:Missing)
  end

  def test_errors_are_those_of_rubys
    assert_equal ["not in transaction"] * 4, [-> { store[:a] }, -> { store.roots }, -> { store.abort }, -> { store.fetch(:a) }].map { |call| error(&call) }
    store.transaction { |s| assert_equal "nested transaction", error { s.transaction {} } }
    store.transaction(true) { |s| assert_equal "in read-only transaction", error { s[:a] = 1 } }
    store.transaction(true) { |s| assert_match(/\Aundefined key 'none'\z/, error { s.fetch(:none) }) }
    assert_match(/directory .* does not exist/, error { Paceline::PStore.new(File.join(@folder, "none/file")) })
    other = Paceline::PStore.new(@file)
    # Ruby's own would wait for itself for ever.
    store.transaction { assert_equal "nested transaction", error { other.transaction {} } }
  end

  def test_reading_makes_no_file_and_does_not_wait_for_a_writer
    assert_equal [], read(&:roots)
    assert_empty Dir.children(@folder)
    store.transaction { |s| s[:a] = 1 }
    store.transaction do |s|
      s[:a] = 2
      seen = Thread.new { Paceline::PStore.new(@file).transaction(true) { |other| other[:a] } }
      assert_equal 1, Timeout.timeout(10) { seen.value }
    end
  end

  def test_a_transaction_that_reads_sees_one_moment
    store.transaction { |s| s[:a] = s[:b] = 1 }
    store.transaction(true) do |s|
      first = s[:a]
      Thread.new { Paceline::PStore.new(@file).transaction { |other| other[:a] = other[:b] = 2 } }.join
      assert_equal [1, 1], [first, s[:b]]
    end
  end

  def test_thread_safe_waits_where_others_get_an_error
    inside, go = Queue.new, Queue.new
    [[false, "PStore::Error"], [true, "2"]].each do |thread_safe, expected|
      store = Paceline::PStore.new(@file, thread_safe)
      first = Thread.new { store.transaction { |s| s[:n] = 1; inside << 1; go.pop } }
      inside.pop
      second = Thread.new { store.transaction { |s| s[:n] += 1 }.to_s rescue $!.class.to_s }
      Thread.pass until thread_safe ? second.stop? : !second.alive?
      go << 1
      assert_equal expected, second.value
      first.join
    end
  end

  def test_a_file_of_rubys_is_taken_over_and_kept
    old = ::PStore.new(@file)
    old.transaction { 50.times { |i| old["root #{i}"] = { number: i } } ; old[:same] = old["root 1"] }
    content = File.binread(@file)
    # Who only reads takes nothing over.
    assert_equal({ number: 7 }, read { |s| s["root 7"] })
    assert_equal content, File.binread(@file)
    store.transaction { |s| s["root 1"][:number] = -1 }
    assert_equal [{ number: -1 }, 51, "root 0"], read { |s| [s[:same], s.roots.size, s.roots.first] }
    assert_equal content, File.binread("#{@file}.bak")
    refute_equal content[0, 2], File.binread(@file, 2)
  end

  def test_a_file_that_is_something_else_is_named_and_stays
    ["no store at all", "\x04\bi\x06", "\x04\b{\x06:"].each do |content|
      File.binwrite(@file, content)
      error = assert_raises(StandardError) { store.transaction { |s| s[:a] = 1 } }
      assert_includes [Paceline::Records::Foreign, PStore::Error, ArgumentError], error.class
      assert_equal content, File.binread(@file)
    end
    assert_equal ["app.pstore"], Dir.children(@folder)
  end

  def test_a_damaged_file_is_named_and_stays
    store.transaction { |s| 100.times { |i| s[i] = "x" * 500 } }
    Paceline::Records.at(@file).close
    content = File.binread(@file)
    File.binwrite(@file, content[0, content.bytesize / 2])
    error = assert_raises(Paceline::Records::Damaged) { store.transaction { |s| s[1] } }
    assert_includes error.message, @file
    assert_equal content.bytesize / 2, File.size(@file)
  end

  def test_another_users_file_is_not_loaded_unless_told
    skip "only root can give a file away" unless Process.uid.zero?
    store.transaction { |s| s[:a] = 1 }
    File.chown(65_534, nil, @file)
    assert_match(/belongs to user 65534/, error { store.transaction { |s| s[:a] } })
    assert_equal 1, Paceline::PStore.new(@file, trust: true).transaction { |s| s[:a] }
    old = File.join(@folder, "old")
    ::PStore.new(old).transaction { |s| s[:a] = 1 }
    File.chmod(0o666, old)
    assert_match(/everybody may write/, error { Paceline::PStore.new(old).transaction { |s| s[:a] } })
  end

  class Upside < Paceline::PStore
    def dump(table) = Marshal.dump(table).reverse

    def load(content) = Marshal.load(content.reverse)
  end

  def test_a_subclass_with_a_format_of_its_own_keeps_its_plain_file
    mine = Upside.new(@file)
    mine.transaction { |s| s[:a] = [1] }
    mine.transaction { |s| s[:a] << 2 }
    assert_equal({ a: [1, 2] }, Marshal.load(File.binread(@file).reverse))
  end

  def test_the_plain_format_is_rubys
    plain = Paceline::PStore.new(@file, format: :marshal)
    plain.ultra_safe = true
    plain.transaction { |s| s[:a] = [1] }
    assert_equal [1], ::PStore.new(@file).transaction { |s| s[:a] }
    assert_equal ["app.pstore"], Dir.children(@folder)
  end

  def test_a_store_goes_on_after_a_fork_and_after_its_file_is_gone
    store.transaction { |s| s[:n] = 1 }
    pids = Array.new(3) { fork { 20.times { store.transaction { |s| s[:n] += 1 } }; exit!(true) } }
    20.times { store.transaction { |s| s[:n] += 1 } }
    assert(pids.all? { |pid| Process.wait2(pid)[1].success? })
    assert_equal 81, read { |s| s[:n] }
    File.unlink(@file)
    assert_equal [], read(&:roots)
    store.transaction { |s| s[:n] = 5 }
    assert_equal 5, read { |s| s[:n] }
  end

  def test_a_fork_within_a_transaction_harms_nobody
    store.transaction do |s|
      s[:a] = 1
      Process.wait(fork { exit!(0) })
      Process.wait(fork { GC.start; exit(0) })
    end
    other = Paceline::PStore.new(@file)
    assert_equal 1, other.transaction { |s| s[:a] }
  end

  def test_processes_lose_no_update
    [false, true].each do |plain|
      file = File.join(@folder, "count #{plain}")
      pids = Array.new(4) do
        fork do
          mine = Paceline::PStore.new(file, format: plain ? :marshal : :records)
          mine.ultra_safe = plain
          25.times { mine.transaction { |s| s[:n] = (s[:n] || 0) + 1 } }
          exit!(true)
        end
      end
      assert(pids.all? { |pid| Process.wait2(pid)[1].success? })
      assert_equal 100, Paceline::PStore.new(file, format: plain ? :marshal : :records).transaction(true) { |s| s[:n] }
    end
  end

  def test_descriptors_are_bounded_however_many_stores_are_used
    stores = Array.new(150) { |i| Paceline::PStore.new("#{@file}#{i}") }
    2.times { stores.each_with_index { |store, i| store.transaction { |s| s[:n] = (s[:n] || i) + 1 } } }
    assert_equal Array.new(150) { |i| i + 2 }, stores.map { |store| store.transaction(true) { |s| s[:n] } }
    ours = Dir["/proc/self/fd/*"].count { |fd| File.readlink(fd).start_with?(@folder) rescue false }
    assert_operator ours, :<=, 6 * 64
  end

  def test_replace_gives_it_the_name
    code = 'require "pstore"; require "paceline/pstore"; Paceline::PStore.replace!; Paceline::PStore.replace!
            require "yaml/store"; y = YAML::Store.new(ARGV[0] + ".yml"); y.transaction { y["a"] = { "b" => 1 } }
            s = PStore.new(ARGV[0]); s.transaction { s[:a] = 1 }
            begin; s[:a]; rescue PStore::Error => e; print PStore.equal?(Paceline::PStore), e.message, File.read(ARGV[0] + ".yml"); end'
    said = IO.popen([RbConfig.ruby, "-I#{File.expand_path("../../lib", __dir__)}", "-e", code, @file], &:read)
    assert_equal "truenot in transaction---\na:\n  b: 1\n", said
  end

  private

  def store
    @store ||= Paceline::PStore.new(@file)
  end

  # By another store, so that nothing is left in memory.
  def read(&block)
    Paceline::PStore.new(@file).transaction(true, &block)
  end

  def error(&block)
    assert_raises(PStore::Error, &block).message
  end
end
