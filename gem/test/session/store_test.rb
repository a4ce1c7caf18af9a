# frozen_string_literal: true

require "session/support/backends"

# What is kept of sessions, and how long: by each backend.
class SessionStoreTest < Minitest::Test
  extend SessionBackends
  include SessionBackends::Looks

  ID = "0123456789abcdef0123456789abcdef"
  DAY = 24 * 3600

  on_each("what_is_kept_is_found") do |store|
    now = { "user_id" => 1, "ä" => "ö", "" => [1, { "a" => nil }], "none" => {} }
    sessions(store).create(ID, now)
    assert_equal now, values(sessions(store), ID)
    assert_equal Encoding::UTF_8, values(sessions(store), ID).keys[1].encoding
    assert_nil sessions(store).find("other")
  end

  on_each("what_two_requests_change_is_kept_of_both") do |store|
    sessions = sessions(store)
    sessions.create(ID, { "a" => 1, "b" => 1, "c" => [1], "d" => 1 })
    slow = sessions.find(ID)
    seen = sessions.values(slow)
    change(sessions, ID) { |now| now.update("a" => 2, "new" => 2) && now.delete("d") }
    seen["b"] = 3
    seen["c"] << 3
    assert sessions.update(ID, slow, seen)
    assert_equal({ "a" => 2, "b" => 3, "c" => [1, 3], "new" => 2 }, values(sessions, ID))
  end

  on_each("the_last_one_wins_what_both_change") do |store|
    sessions = sessions(store)
    sessions.create(ID, { "a" => 1, "b" => 1 })
    slow = sessions.find(ID)
    seen = sessions.values(slow)
    change(sessions, ID) { |now| now.update("a" => 2).delete("b") }
    seen.update("a" => 3, "b" => 3)
    sessions.update(ID, slow, seen)
    assert_equal({ "a" => 3, "b" => 3 }, values(sessions, ID))
  end

  on_each("what_is_changed_deep_inside_is_kept") do |store|
    sessions = sessions(store)
    sessions.create(ID, { "cart" => { "lines" => [{ "beer" => +"Kölsch", "bottles" => 1 }] }, "rest" => "x" })
    change(sessions, ID) { |now| now["cart"]["lines"][0]["beer"] << " 0.5" }
    assert_equal "Kölsch 0.5", values(sessions, ID)["cart"]["lines"][0]["beer"]
  end

  on_each("who_only_reads_writes_nothing") do |store|
    sessions = sessions(store)
    sessions.create(ID, { "a" => "x", "b" => [1, { "c" => "d" }] })
    before = everything(store)
    assert(change(sessions, ID) { |now| now["b"].first })
    assert_nil sessions.find("nobody")
    assert_equal before, everything(store)
  end

  on_each("a_store_that_is_only_read_is_not_made") do |store|
    assert_nil sessions(store).find(ID)
    assert_empty everything(store) unless redis?(store)
    assert_equal 0, raw(store, &:dbsize) if redis?(store)
  end

  on_each("what_is_gone_does_not_come_back") do |store|
    sessions = sessions(store)
    sessions.create(ID, { "user_id" => 1 })
    slow = sessions.find(ID)
    seen = sessions.values(slow)
    assert_equal 1, sessions.values(sessions.take(ID))["user_id"]
    seen["late"] = true
    assert_equal false, sessions.update(ID, slow, seen)
    assert_nil sessions.find(ID)
    assert_nil sessions.take(ID)
    assert_equal 0, count(store)
  end

  on_each("a_new_id_gets_what_is_kept_and_what_was_changed") do |store|
    sessions = sessions(store)
    sessions.create(ID, { "cart" => [1], "seen" => 1, "old" => 1 })
    record = sessions.find(ID)
    seen = sessions.values(record)
    change(sessions, ID) { |now| now["seen"] = 2 }
    seen["user_id"] = 7
    seen.delete("old")
    taken = sessions.take(ID)
    assert sessions.renew("new", record, taken, seen)
    assert_equal({ "cart" => [1], "seen" => 2, "user_id" => 7 }, values(sessions, "new"))
    assert_nil sessions.find(ID)
  end

  on_each("a_new_id_for_what_was_destroyed_gets_only_what_was_changed") do |store|
    sessions = sessions(store)
    sessions.create(ID, { "user_id" => 1, "secret" => "s" })
    record = sessions.find(ID)
    seen = sessions.values(record)
    sessions.take(ID)
    assert_equal false, sessions.renew("new", record, nil, seen)
    assert_equal 0, count(store)
    seen["note"] = "n"
    assert sessions.renew("new", record, nil, seen)
    assert_equal({ "note" => "n" }, values(sessions, "new"))
  end

  on_each("ids_are_not_kept") do |store|
    sessions(store).create(ID, { "a" => 1 })
    kept = everything(store)
    refute_includes kept, ID
    refute_includes kept, [ID].pack("H*")
    digest = Digest::SHA256.digest(ID)
    assert_includes kept, redis?(store) ? digest.unpack1("H*") : digest
  end

  on_each("it_expires_when_it_is_not_used") do |store|
    sessions = sessions(store, idle: 7200)
    sessions.create(ID, { "a" => 1 })
    @now += 7199
    assert sessions.find(ID)
    change(sessions, ID) { |_| nil }
    @now += 7199
    assert sessions.find(ID)
    @now += 1
    assert_nil sessions.find(ID)
    @now -= 1
    change(sessions, ID) { |now| now["a"] = 2 }
    @now += 7199
    assert_equal 2, values(sessions, ID)["a"]
  end

  on_each("reading_is_noted_once_in_a_sixteenth_of_the_time") do |store|
    sessions = sessions(store, idle: 1600)
    sessions.create(ID, { "a" => 1 })
    before = everything(store)
    @now += 99
    change(sessions, ID) { |_| nil }
    assert_equal before, everything(store)
    @now += 1
    change(sessions, ID) { |_| nil }
    refute_equal before, everything(store)
    @now += 1599
    assert sessions.find(ID)
  end

  on_each("who_writes_notes_the_time_likewise") do |store|
    sessions = sessions(store, idle: 1600)
    sessions.create(ID, { "a" => 1 })
    @now += 1500
    change(sessions, ID) { |now| now["a"] = 2 }
    @now += 1500
    assert_equal 2, values(sessions, ID)["a"]
  end

  on_each("the_shorter_of_two_times_counts") do |store|
    sessions = sessions(store, idle: 100)
    sessions.create("short", { "a" => 1 }, expire_after: 50)
    sessions.create("long", { "a" => 1 }, expire_after: DAY)
    @now += 50
    assert_nil sessions.find("short")
    assert sessions.find("long")
    @now += 50
    assert_nil sessions.find("long")
  end

  on_each("one_that_lasts_longer_or_shorter_from_now_on") do |store|
    sessions = sessions(store)
    sessions.create(ID, { "a" => 1 }, expire_after: 100)
    change(sessions, ID, expire_after: 1000) { |_| nil }
    @now += 999
    assert sessions.find(ID)
    @now -= 900
    change(sessions, ID, expire_after: 100) { |_| nil }
    @now += 100
    assert_nil sessions.find(ID)
  end

  on_each("it_lasts_no_longer_than_its_lifetime") do |store|
    sessions = sessions(store, idle: 100, lifetime: 250)
    sessions.create(ID, { "a" => 1 })
    3.times do
      @now += 80
      assert change(sessions, ID) { |now| now["a"] += 1 }
    end
    # A new id is no new session.
    record = sessions.find(ID)
    sessions.renew("new", record, sessions.take(ID), sessions.values(record))
    @now += 9
    assert_equal 4, values(sessions, "new")["a"]
    @now += 1
    assert_nil sessions.find("new")
  end

  on_each("thirty_days_if_nothing_is_said") do |store|
    sessions = sessions(store)
    sessions.create(ID, { "a" => 1 })
    @now += (30 * DAY) - 1
    assert sessions.find(ID)
    @now += 1
    assert_nil sessions.find(ID)
  end

  # A request that had it in hand may still save.
  on_each("it_is_kept_a_minute_for_those_who_have_it") do |store|
    sessions = sessions(store, idle: 100)
    sessions.create(ID, { "a" => 1 })
    slow = sessions.find(ID)
    @now += 150
    sessions.create("other", { "b" => 1 })
    assert sessions.update(ID, slow, { "a" => 2 })
    assert_equal 2, values(sessions, ID)["a"]
  end

  on_each("too_large_is_an_error_that_names_the_largest") do |store|
    sessions = sessions(store, max_size: 10_000)
    error = assert_raises(Paceline::Session::TooLarge) { sessions.create(ID, { "small" => 1, "report" => "x" * 12_000, "list" => ["y" * 50] }) }
    assert_match(/\Athe session has 12\d\d\d bytes, more than max_size = 10000; the largest: "report" 120\d\d, "list" \d\d, "small" \d\z/, error.message)
    assert_equal 0, count(store)

    sessions.create(ID, { "a" => "x" * 6000 })
    slow = sessions.find(ID)
    change(sessions, ID) { |now| now["b"] = "y" * 3000 }
    before = everything(store)
    error = assert_raises(Paceline::Session::TooLarge) { sessions.update(ID, slow, sessions.values(slow).merge("c" => "z" * 3000)) }
    assert_match(/"a" 60\d\d, "[bc]" 30\d\d, "[bc]" 30\d\d\z/, error.message)
    assert_equal before, everything(store)
    # To the byte: what replaces is not counted twice, what goes is not counted, and nothing that is kept besides.
    sessions = sessions(store, max_size: 10_000, serializer: :marshal)
    sessions.create("exact", { "a" => "x" })
    room = (9_000..10_000).bsearch { |bytes| "a".bytesize + Marshal.dump("x" * bytes).bytesize > 10_000 } - 1
    assert(change(sessions, "exact") { |now| now["a"] = "x" * room })
    assert_raises(Paceline::Session::TooLarge) { change(sessions, "exact") { |now| now["a"] << "x" } }
    sessions = sessions(store, max_size: 10_000)
    assert change(sessions, ID) { |now| now["a"] = "x" * 6900 }
    assert change(sessions, ID) { |now| now.update("c" => "z" * 6900).delete("a") }
  end

  on_each("json_keeps_what_it_knows_and_says_so_of_the_rest") do |store|
    sessions = sessions(store, serializer: :json)
    kept = { "flash" => { "discard" => [], "flashes" => { "notice" => "Prost" } }, "n" => [1, 1.5, nil, true, "ü"], "s" => :sym, "h" => { sym: 1 } }
    sessions.create(ID, kept)
    assert_equal kept.merge("s" => "sym", "h" => { "sym" => 1 }), values(sessions, ID)
    # What comes back in another way is no change.
    before = everything(store)
    assert(change(sessions, ID) { |_| nil })
    assert_equal before, everything(store)
    { Time.now => "a Time", { 1 => 2 } => "Integer as a key", [Object.new] => "a Object", "\xFF" => "session\\[\"x\"\\]", Float::NAN => "NaN" }.each do |value, why|
      error = assert_raises(Paceline::Session::NotSerializable) { change(sessions, ID) { |now| now["x"] = value } }
      assert_match(/session\["x"\] can't be stored as JSON: .*#{why}|#{why}.*can't be stored as JSON/, error.message)
    end
    assert_equal before, everything(store)
  end

  on_each("marshal_keeps_objects") do |store|
    sessions = sessions(store, serializer: :marshal)
    kept = { "t" => Time.at(1, 5, :nsec), "r" => 1..2, "h" => { 1 => :a }, "f" => 0.1, "bytes" => "\xFF\x00".b }
    sessions.create(ID, kept)
    assert_equal kept, values(sessions, ID)
    error = assert_raises(Paceline::Session::NotSerializable) { change(sessions, ID) { |now| now["io"] = $stdout } }
    assert_match(/session\["io"\] can't be stored: .*IO/, error.message)
  end

  # Marshal writes a frozen String that is also a Hash's key in another way once it was loaded.
  on_each("what_marshal_writes_in_another_way_is_no_change") do |store|
    sessions = sessions(store, serializer: :marshal)
    name = "key"
    twice = [{ name => 1 }, name]
    refute_equal Marshal.dump(twice), Marshal.dump(Marshal.load(Marshal.dump(twice)))
    sessions.create(ID, { "a" => twice, "b" => "x".encode("UTF-16LE") })
    before = everything(store)
    3.times { assert(change(sessions, ID) { |_| nil }) }
    assert_equal before, everything(store)
  end

  on_each("of_another_serializer_is_not_found") do |store|
    sessions(store, serializer: :json).create(ID, { "a" => 1 })
    assert_nil sessions(store, serializer: :marshal).find(ID)
    sessions(store, serializer: :marshal).create(ID, { "a" => 1 })
    assert_nil sessions(store, serializer: :json).find(ID)
  end

  on_each("a_serializer_of_ones_own") do |store|
    reversed = Object.new
    def reversed.dump(value) = value.inspect.reverse
    def reversed.load(bytes) = Integer(bytes.reverse)
    sessions = sessions(store, serializer: reversed)
    sessions.create(ID, { "a" => 120 })
    assert_includes everything(store), "021"
    assert_equal({ "a" => 120 }, values(sessions, ID))
  end

  def test_defaults
    skip "there is no store without the native part" unless Paceline::Native
    Dir.mktmpdir { |folder| assert_equal "m", sessions(File.join(folder, "s")).create(ID, {}).format }
    skip "there is no gem redis" unless SessionBackends::CLIENT
    assert_equal "j", sessions("redis://127.0.0.1:1").instance_variable_get(:@serializer).mark
  end

  def test_bad_options_are_named
    { { idle: 0 } => /idle: must be seconds/, { idle: "2h" } => /idle: must be seconds/, { lifetime: -1 } => /lifetime: must be seconds/, { idle: Object } => /idle: must be seconds/, { max_size: 0 } => /max_size: must be a number of bytes/,
      { serializer: :yaml } => /serializer: must be :marshal, :json/, { store: "http://x" } => %r{redis://.*not http://x}, { store: "" } => /store: must be the path/ }.each do |options, why|
      assert_match why, assert_raises(ArgumentError, options.inspect) { Paceline::Session::Store.new(**{ store: "/tmp/none" }.merge(options)) }.message
    end
  end
end
