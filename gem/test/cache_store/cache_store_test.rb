# frozen_string_literal: true

require_relative "support/caches"

# What the cache is made of, without Rails.
class CacheStoreTest < CacheTestCase
  FOREVER = Float::INFINITY

  def test_values_of_all_sizes_come_back_and_shrink_in_place
    cache = engine
    sizes = [0, 1, 1999, 2000, 2038, 2039, 4040, 4041, 4042, 4043, 4044, 4076, 4077, 8152, 8153, 100_000, 1_000_000]
    values = sizes.to_h { |size| [size, Random.bytes(size)] }
    values.each { |size, value| assert_equal true, cache.write("k#{size}", value) }
    values.each { |size, value| assert_equal value, cache.read("k#{size}").value, size }
    assert_equal values.transform_keys { |size| "k#{size}" }, cache.read_many([*sizes.map { |size| "k#{size}" }, "none"]).transform_values(&:value)
    assert_equal sizes.size, assert_sound
    (sizes + sizes.reverse).each { |size| cache.write("same", values[size]) && assert_equal(values[size], cache.read("same").value, size) }
    assert_equal sizes.size + 1, assert_sound
  end

  def test_keys_of_any_bytes_and_length
    cache = engine
    keys = ["", "a", "\0", "\xFF\xFE".b, "k" * 511, "k" * 512, "k" * 5000, "k" * 5001, "ü".b]
    keys.each_with_index { |key, n| assert cache.write(key, n.to_s) }
    keys.each_with_index { |key, n| assert_equal n.to_s, cache.read(key).value }
    seen = []
    assert_equal 0, cache.delete_if { |key| seen << key && false }
    assert_equal keys.sort, seen.sort
    assert_equal 2, cache.delete_if { |key| key.bytesize > 1000 }
    assert_nil cache.read("k" * 5000)
    assert_equal keys.size - 2, assert_sound
  end

  def test_another_key_with_the_same_hash_is_a_miss
    cache = engine
    with_one_hash do
      cache.write("one", "1" * 5000)
      assert_nil cache.read("two")
      assert_equal false, cache.delete("two")
      assert_equal "1" * 5000, cache.read("one").value
      cache.write("two", "2", 5.0)
      assert_nil cache.read("one")
      assert_equal "2", cache.read("two").value
      assert_equal 1, assert_sound
    end
  end

  def test_what_is_written_unless_it_is_there
    cache = engine
    unless_there = -> { cache.update("a") { |old| ["2", FOREVER] unless old && !old.expired?(Time.now.to_f) } }
    cache.write("a", "1")
    assert_equal false, unless_there.call
    cache.write("a", "1", Time.now.to_f - 1)
    assert_equal true, unless_there.call
    assert_equal "2", cache.read("a").value
  end

  def test_too_large_a_value_is_not_kept_and_neither_is_what_was_there
    cache = engine(size: 2 * MEGABYTE)
    assert cache.write("a", "x" * 100_000)
    assert_equal false, cache.write("a", "x" * (2 * MEGABYTE / 16))
    assert_nil cache.read("a")
    cache.write_many("b" => ["x" * 200_000, FOREVER], "c" => ["1", FOREVER])
    assert_equal ["c"], cache.read_many(%w[b c]).keys
    assert_equal 1, assert_sound
  end

  def test_what_has_expired_goes_first_then_what_was_not_used
    cache = engine(size: 2 * MEGABYTE)
    10.times { |n| cache.write("k#{n}", "x" * 10_000) }
    5.times { |n| cache.read("k#{n * 2}") }
    # Marks are told with a write when the file is half full, or by many at once.
    50.times { |n| cache.write("filler#{n}", "x" * 20_000) }
    # The last one, and marked.
    2.times { cache.write("expires", "x" * 20_000, Time.now.to_f - 1) }
    entries = -> { (0..9).select { |n| cache.read("k#{n}") } }
    cache.prune(cache.used - 20_000)
    assert_nil cache.read("expires")
    assert_equal (0..9).to_a, entries.call
    other = engine(size: 2 * MEGABYTE)
    other.prune(other.used - 25_000)
    gone = (0..9).to_a - entries.call
    assert_equal [1, 3, 5], gone
    assert_sound
  end

  def test_cleanup_and_delete
    cache = engine
    now = Time.now.to_f
    250.times { |n| cache.write("old#{n}", "x", now - n) }
    250.times { |n| cache.write("new#{n}", "x", now + 1000) }
    cache.write("always", "x")
    assert_equal false, cache.delete("old1")
    assert_equal true, cache.delete("new1")
    assert_equal 249, cache.cleanup
    assert_equal 0, cache.cleanup
    assert_equal 2, cache.delete_many(%w[new2 new3 new2 none])
    assert_equal 248, assert_sound
  end

  def test_clear_is_seen_by_all_and_the_file_is_small_again
    cache = engine
    others = [engine, engine]
    others.each { |other| other.write("a", "x" * 1_000_000) }
    said = in_processes(2) do |number|
      engine.read("a").nil? || (number.zero? && cache.clear)
      Timeout.timeout(10) { Thread.pass while engine.read("a") }
      engine.write("b#{number}", "1")
    end
    assert_equal [true, true], said
    assert_nil cache.read("a")
    assert_operator File.size(@file), :<, 100_000
    # One of them may have written before the other had cleared.
    assert_operator assert_sound, :>=, 1
  end

  def test_a_damaged_file_is_set_aside_and_a_new_one_begun
    cache = engine
    cache.write("a", "findable value" * 10)
    cache.write("b", "1")
    Paceline::Records.at(@file).close
    bytes = File.binread(@file)
    # A byte of a record; the head of the file; its end.
    damages = [->(all) { all.gsub("findable", "fondable") }, ->(all) { all.dup.tap { |head| head[16, 8000] = "\xFF".b * 8000 } }, ->(all) { all[0, 8192] }]
    damages.each do |damage|
      File.binwrite(@file, damage.call(bytes))
      @lines.clear
      damaged = File.binread(@file)
      assert_nil cache.read("a")
      assert_equal damaged, File.binread("#{@file}.damaged")
      assert_equal 1, @lines.size, @lines.inspect
      assert_match(/begun anew.*\.damaged/, @lines[0])
      assert cache.write("a", "2")
      assert_equal "2", cache.read("a").value
      Paceline::Records.at(@file).close
      File.unlink(@file)
    end
  end

  def test_a_file_that_is_no_cache_is_left_alone
    File.write(@file, "production:\n  adapter: sqlite3\n")
    assert_match(/not a cache/, assert_raises(Paceline::Records::Foreign) { engine.read("a") }.message)
    assert_equal "production:\n  adapter: sqlite3\n", File.read(@file)
    File.unlink(@file)
    require "paceline/pstore"
    Paceline::PStore.new(@file).transaction { |store| store[:a] = 1 }
    assert_raises(Paceline::Records::Foreign) { engine.read("a") }
    assert_equal(1, Paceline::PStore.new(@file).transaction(true) { |store| store[:a] })
  end

  def test_a_file_of_before_the_machine_was_started_is_not_believed
    engine.write("a", "1")
    assert_equal "1", engine.read("a").value
    File.write("#{@file}-boot", "another boot")
    assert_nil engine.read("a")
    assert_match(/started anew/, @lines[0])
    engine.write("a", "2")
    assert_equal "2", engine.read("a").value
    assert_equal 1, @lines.size
  end

  def test_a_file_that_others_may_write_to_is_not_read
    engine.write("a", "1")
    assert_equal 0o600, File.stat(@file).mode & 0o777
    File.chmod(0o666, @file)
    assert_match(/everybody may write to it/, assert_raises(Paceline::CacheStore::Untrusted) { engine.read("a") }.message)
    File.chmod(0o600, @file)
    assert_equal "1", engine.read("a").value
    skip "this needs root" unless Process.euid.zero?
    File.chown(65_534, 65_534, @file)
    assert_match(/belongs to user 65534/, assert_raises(Paceline::CacheStore::Untrusted) { engine.write("a", "2") }.message)
  end

  def test_a_folder_that_goes_while_it_is_used
    @file = File.join(@folder, "tmp/sub/cache.paceline")
    cache = engine
    cache.write("a", "1")
    FileUtils.rm_rf(File.join(@folder, "tmp"))
    assert_nil cache.read("a")
    assert cache.write("a", "2")
    assert_equal "2", cache.read("a").value
  end

  def test_what_cannot_be_asked_for
    assert_match(/at least 1048576/, assert_raises(ArgumentError) { engine(size: 1000) }.message)
    assert_match(/at least/, assert_raises(ArgumentError) { engine(size: "256 MB") }.message)
  end

  private

  def with_one_hash
    entry = Paceline::CacheStore.new(@file, size: MEGABYTE).instance_eval { self.class.module_eval("Entry", __FILE__, __LINE__) }
    usual = entry.method(:hash_of)
    entry.define_singleton_method(:hash_of) { |_key| "h".b * 16 }
    yield
  ensure
    entry.define_singleton_method(:hash_of, usual)
  end
end
