# frozen_string_literal: true

require "session/support/backends"

# The file: what expires goes, a little with each write; what can't be read is told and left as it is.
class SessionFileTest < Minitest::Test
  include SessionBackends::Looks

  def setup
    skip "there is no store without the native part" unless Paceline::Native
    @folder = Dir.mktmpdir
    @store = File.join(@folder, "sessions.paceline")
  end

  def teardown
    FileUtils.rm_rf(@folder) if @folder
  end

  # Sessions, and entries in the list of those by time.
  def counts
    found = Paceline::Records.at(@store).snapshot { |now| now.scan("s", 100_000).map { |key, _| key[0] } }
    [found.count("s"), found.count("x")]
  end

  def test_each_write_takes_up_to_four_expired_ones_away
    sessions = sessions(@store, idle: 100)
    20.times { |number| sessions.create("old#{number}", { "a" => 1 }) }
    @now += 161
    assert_equal [20, 20], counts
    sessions.create("new", { "a" => 1 })
    assert_equal [17, 17], counts
    change(sessions, "new") { |now| now["a"] = 2 }
    assert_equal [13, 13], counts
    # Who only reads takes none.
    change(sessions, "new") { |now| now["a"] }
    sessions.find("old1")
    assert_equal [13, 13], counts
    4.times { |number| change(sessions, "new") { |now| now["a"] = [number] } }
    assert_equal [1, 1], counts
    assert_equal({ "a" => [3] }, values(sessions, "new"))
  end

  def test_a_session_that_is_used_is_not_taken_away
    sessions = sessions(@store, idle: 100)
    sessions.create("used", { "a" => 0 })
    10.times do |number|
      @now += 90
      change(sessions, "used") { |now| now["a"] += 1 }
      sessions.create("other#{number}", {})
      assert_equal number + 1, values(sessions, "used")["a"]
    end
    sessions.take("used")
    assert_equal counts[0], counts[1]
    assert_operator counts[0], :<=, 3
  end

  def test_the_expired_one_that_is_saved_is_not_taken_away_by_itself
    sessions = sessions(@store, idle: 100)
    sessions.create("id", { "a" => 0 })
    slow = sessions.find("id")
    @now += 1000
    assert sessions.update("id", slow, { "a" => 1 })
    assert_equal({ "a" => 1 }, values(sessions, "id"))
    assert_equal [1, 1], counts
  end

  def test_all_that_expired_at_once
    sessions = sessions(@store, idle: 100)
    1200.times { |number| sessions.create(number.to_s, {}) }
    @now += 99
    sessions.create("new", {})
    assert_equal 0, sessions.sweep
    @now += 2
    assert_equal 1200, sessions.sweep
    assert_equal [1, 1], counts
    assert sessions.find("new")
  end

  # Runs the block between what this process reads and its commit, so many times.
  def before_commits(count)
    records = Paceline::Records.at(@store)
    committed = 0
    records.define_singleton_method(:commit) do |changes, **options|
      yield committed if (committed += 1) <= count
      super(changes, **options)
    end
    -> { records.singleton_class.remove_method(:commit) && committed }
  end

  # Commits as another process would, which knows nothing of the one that is held up.
  def elsewhere(&block)
    pid = fork do
      Paceline::Records.at(@store).singleton_class.remove_method(:commit)
      block.call
      exit!(0)
    rescue StandardError => e
      warn e.full_message
      exit!(1)
    end
    assert Process.wait2(pid)[1].success?
  end

  def test_somebody_was_quicker
    sessions = sessions(@store)
    sessions.create("id", { "a" => 1, "b" => 1, "c" => 1 })
    record = sessions.find("id")
    commits = before_commits(2) { |number| elsewhere { change(sessions(@store), "id") { |now| now.update("a" => 2, "c" => number) } } }
    assert sessions.update("id", record, { "a" => 1, "b" => 3, "c" => 1 })
    assert_equal 3, commits.call
    assert_equal({ "a" => 2, "b" => 3, "c" => 2 }, values(sessions, "id"))
    assert_equal [1, 1], counts
  end

  def test_destroyed_or_renewed_while_it_was_about_to_be_saved
    sessions = sessions(@store)
    sessions.create("id", { "a" => 1 })
    record = sessions.find("id")
    commits = before_commits(1) { elsewhere { sessions(@store).take("id") } }
    assert_equal false, sessions.update("id", record, { "a" => 2 })
    commits.call
    assert_equal [0, 0], counts

    sessions.create("id", { "a" => 1 })
    commits = before_commits(1) { elsewhere { change(sessions(@store), "id", expire_after: 60) { |now| now["a"] = 2 } } }
    assert_equal({ "a" => 2 }, sessions.values(sessions.take("id")))
    commits.call
    assert_equal [0, 0], counts
  end

  # Two processes see the same sessions expire, or one is used again.
  def test_what_has_expired_is_taken_away_once_and_only_if_it_is_not_used_again
    sessions = sessions(@store, idle: 100)
    6.times { |number| sessions.create("old#{number}", { "a" => 1 }) }
    used = sessions.find("old0")
    @now += 161
    commits = before_commits(1) { elsewhere { sessions(@store, idle: 100).update("old0", used, { "a" => 2 }) } }
    sessions.create("new", { "a" => 1 })
    assert_equal 2, commits.call
    # Of the four that both had seen the other one has used one and taken three away.
    assert_equal [4, 4], counts
    assert_equal({ "a" => 2 }, values(sessions, "old0"))

    @now += 161
    commits = before_commits(1) { elsewhere { sessions(@store, idle: 100).create("newer", {}) } }
    assert_equal 0, sessions.sweep, "the other one was quicker"
    assert_equal 2, commits.call
    assert_equal [1, 1], counts
  end

  # A worker that waits for Ruby's lock, or was stopped.
  def test_a_process_between_reading_and_writing_keeps_no_other_from_writing
    sessions = sessions(@store)
    sessions.create("id", { "a" => 1 })
    record = sessions.find("id")
    commits = before_commits(1) do
      elsewhere do
        20.times { |number| sessions(@store).create("other#{number}", { "a" => number }) }
        sessions(@store).take("other0")
      end
    end
    assert sessions.update("id", record, { "a" => 2 })
    assert_equal 1, commits.call, "what others wrote meanwhile is no reason to begin again"
    assert_equal [20, 20], counts
  end

  def test_a_file_that_is_no_store_of_sessions
    { "text" => "no sessions at all\n" * 500, "pstore" => nil, "marshal" => Marshal.dump({ a: 1 }) }.each do |name, content|
      path = File.join(@folder, name)
      content ? File.binwrite(path, content) : Paceline::Records.at(path).commit({ "root" => "x" })
      File.chmod(0o600, path)
      before = File.binread(path)
      error = assert_raises(Paceline::Session::Unavailable, name) { sessions(path).find("id") }
      assert_includes error.message, path
      assert_raises(Paceline::Session::Unavailable, name) { sessions(path).create("id", {}) }
      assert_equal before, File.binread(path), name
    end
  end

  def test_a_damaged_file_is_an_error_and_left_as_it_is
    sessions(@store).create("id", { "a" => "x" * 100 })
    Paceline::Records.at(@store).close
    bytes = File.binread(@store)
    { "cut off" => bytes[0, bytes.size - 5000], "of other bytes" => bytes.sub("x" * 100, "y" * 100) }.each do |how, damaged|
      File.binwrite(@store, damaged)
      error = assert_raises(Paceline::Session::Unavailable, how) { sessions(@store).find("id") }
      assert_includes error.message, @store
      assert_kind_of Paceline::Records::Damaged, error.cause, how
      assert_equal damaged, File.binread(@store), how
      Paceline::Records.at(@store).close
    end
    # As it is told in the guide.
    File.unlink(@store, "#{@store}-lock")
    assert_nil sessions(@store).find("id")
    sessions(@store).create("id", { "a" => 1 })
    assert_equal({ "a" => 1 }, values(sessions(@store), "id"))
  end

  def test_removed_while_it_is_in_use
    sessions = sessions(@store)
    sessions.create("id", { "a" => 1 })
    record = sessions.find("id")
    File.unlink(@store, "#{@store}-lock")
    assert_nil sessions.find("id")
    assert_equal false, sessions.update("id", record, { "a" => 2 })
    sessions.create("new", { "a" => 3 })
    assert_equal({ "a" => 3 }, values(sessions, "new"))
  end

  def test_nothing_is_written_into_another_file_that_takes_its_place
    %i[update sweep].each do |act|
      store = sessions(@store, idle: 100)
      store.create("id", { "a" => 1 })
      record = store.find("id")
      @now += 161 if act == :sweep
      foreign = File.join(@folder, "foreign")
      Paceline::Records.at(foreign).commit({ "root" => "x" })
      Paceline::Records.at(foreign).close
      commits = before_commits(1) { File.rename(foreign, @store) }
      error = assert_raises(Paceline::Session::Unavailable, act.to_s) { act == :sweep ? store.sweep : store.update("id", record, { "a" => 2 }) }
      assert_includes error.message, "is not a session file"
      commits.call
      assert_equal [["root", "x"]], Paceline::Records.at(@store).snapshot { |now| now.scan("a", 10) }
      Paceline::Records.at(@store).close
      FileUtils.rm_f([@store, "#{@store}-lock", "#{foreign}-lock"])
    end
  end

  def test_whether_a_write_waits_for_the_disk
    waited = []
    [false, true].each do |sync|
      sessions(@store, sync: sync).create("id", { "a" => 1 })
      records = Paceline::Records.at(@store)
      records.define_singleton_method(:commit) { |changes, **options| waited << options.fetch(:sync, false); super(changes, **options) }
      change(sessions(@store, sync: sync), "id") { |now| now["a"] = sync }
      sessions(@store, sync: sync).take("id")
      records.singleton_class.remove_method(:commit)
    end
    assert_equal [false, false, true, true], waited
  end

  def test_for_its_owner_alone
    sessions(@store).create("id", {})
    assert_equal [0o600, 0o600], [@store, "#{@store}-lock"].map { |path| File.stat(path).mode & 0o777 }
  end

  # Who can write to the file could have code of his own run.
  def test_marshal_is_not_loaded_from_what_others_write
    sessions(@store).create("id", { "a" => 1 })
    sessions(@store, serializer: :json).create("json", { "a" => 1 })
    File.chmod(0o666, @store)
    refused = [[0o666, nil]]
    refused << [0o600, 65_534] if Process.uid.zero?
    refused.each do |mode, owner|
      File.chmod(mode, @store)
      File.chown(owner, nil, @store) if owner
      error = assert_raises(Paceline::Session::Unavailable) { sessions(@store).find("id") }
      assert_match(owner ? /belongs to user 65534/ : /everybody may write/, error.message)
      assert sessions(@store, trust: true).find("id")
      assert sessions(@store, serializer: :json).find("json")
    end
  end

  # Also when it was all right before.
  def test_a_file_that_others_may_write_from_now_on
    sessions = sessions(@store)
    sessions.create("id", { "a" => 1 })
    File.chmod(0o666, @store)
    assert_raises(Paceline::Session::Unavailable) { sessions.find("id") }
  end

  def test_no_folder
    error = assert_raises(Paceline::Session::Unavailable) { sessions(File.join(@folder, "no", "such", "s")).create("id", {}) }
    assert_includes error.message, "the folder #{@folder}/no does not exist: create it"
    sessions(File.join(@folder, "one", "s")).create("id", { "a" => 1 })
    assert values(sessions(File.join(@folder, "one", "s")), "id")
  end

  def test_without_the_native_part
    script = 'require "paceline/session/store"; begin; Paceline::Session::Store.new(store: "/tmp/x"); rescue Paceline::Session::Unavailable => e; puts e.message; end'
    out = IO.popen({ "PACELINE_NATIVE" => "0" }, [RbConfig.ruby, "-I#{File.expand_path("../../lib", __dir__)}", "-e", script], &:read)
    assert_match(/needs the native part of the gem paceline: PACELINE_NATIVE=0 leaves it out; or keep the sessions in Redis/, out)
  end
end
