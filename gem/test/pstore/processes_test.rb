# frozen_string_literal: true

require "helper"
require "timeout"
require "paceline/pstore"

# What processes do to each other that share a store: they fork at any moment, end at any moment, find the file under other names, or find another
# in its place.
class PStoreProcessesTest < Minitest::Test
  def setup
    skip "there is no store without the native part" unless Paceline::Native
    @folder = File.realpath(Dir.mktmpdir)
    @file = File.join(@folder, "store")
    @children = []
  end

  def teardown
    @children&.each { |pid| Process.kill(:KILL, pid) && Process.wait(pid) rescue nil }
    FileUtils.rm_rf(@folder) if @folder
  end

  def test_who_opens_it_to_read_does_not_wait_for_a_writer
    store.transaction { |s| s[:a] = 1 }
    store.transaction do |s|
      s[:a] = 2
      # Neither a child nor a stranger.
      assert_equal "1", child { read(:a) }
      assert_equal "1", stranger("print store.transaction(true) { |s| s[:a] }")
    end
  end

  def test_readers_that_were_killed_do_not_make_the_file_grow
    store.transaction { |s| s[:large] = "a" * 200_000 }
    pid, = child_that_waits { |go| Paceline::Records.at(@file).snapshot { go.call } }
    Process.kill(:KILL, pid)
    Process.wait(pid)
    100.times { |i| store.transaction { |s| s[:large] = i.to_s * 100_000 } }
    assert_operator File.size(@file), :<, 9_000_000
  end

  def test_a_process_is_forked_while_threads_read_and_write
    store.transaction { |s| s[:n] = s[:twin] = 0 }
    stop = false
    busy = Array.new(3) do |number|
      Thread.new do
        mine = Paceline::PStore.new(@file)
        mine.transaction(number == 0) { |s| number == 0 ? s[:n] : s[:n] = s[:twin] = s[:n] + 1 } until stop
      end
    end
    found = Array.new(12) { child { Array.new(5) { Paceline::PStore.new(@file).transaction { |s| s[:n] = s[:twin] = s[:n] + 1; s[:n] == s[:twin] } }.uniq } }
    assert_equal ["[true]"], found.uniq
    stop = true
    busy.each(&:join)
    assert_equal read(:n), read(:twin)
  end

  def test_a_process_is_forked_within_a_transaction_that_reads
    store.transaction { |s| s[:a] = 1 }
    Paceline::Records.at(@file).snapshot do |now|
      # The view is the parent's; the store is everybody's.
      assert_equal "[\"IOError\", 2]", child { [(now.get("rs") rescue $!.class.name), Paceline::PStore.new(@file).transaction { |s| s[:a] += 1 }] }
      refute_nil now.get("r:\0a")
    end
    assert_equal 2, read(:a)
  end

  def test_a_child_does_not_end_the_transaction_of_its_parent
    store.transaction { |s| s[:a] = 1 }
    told, tell = IO.pipe
    # It comes out of the block as its parent does, but that is not its transaction.
    parent = Process.pid
    begin
      store.transaction do |s|
        s[:a] = 2
        @children << (pid = fork)
        next if pid.nil?

        Process.wait(@children.pop)
        assert_nil File.open(@file) { |file| file.flock(File::LOCK_EX | File::LOCK_NB) || nil }
      end
    rescue Paceline::Records::Error => e
      tell << e.message
    ensure
      exit!(0) unless Process.pid == parent
    end
    tell.close
    assert_match(/forked within a transaction/, told.read)
    assert_equal 2, read(:a)
  end

  def test_the_lock_of_a_parent_that_was_killed_is_not_kept_by_its_child
    store.transaction { |s| s[:a] = 1 }
    told, tell = IO.pipe
    pid = fork do
      store.transaction do
        grandchild = fork { sleep }
        tell.puts(grandchild)
        sleep
      end
    end
    grandchild = told.gets.to_i
    Process.kill(:KILL, pid)
    Process.wait(pid)
    assert_equal 2, Timeout.timeout(20) { store.transaction { |s| s[:a] += 1 } }
  ensure
    Process.kill(:KILL, grandchild) if grandchild&.positive?
  end

  def test_threads_are_ended_at_any_moment
    store.transaction { |s| s[:n] = s[:twin] = 0 }
    random = Random.new(seed = Random.new_seed % 1_000_000)
    200.times do
      thread = Thread.new { loop { Paceline::PStore.new(@file).transaction { |s| s[:n] += 1; s[:twin] = s[:n] } } }
      other = Thread.new { loop { Paceline::Records.at(@file).close } } if random.rand(4).zero?
      random.rand(12).times { Thread.pass }
      [thread, other].compact.each(&:kill).each(&:join)
      begin
        Timeout.timeout([0.0005, 0.002, 0.01].sample(random: random)) { Paceline::PStore.new(@file).transaction { |s| s[:n] += 1; s[:twin] = s[:n] } }
      rescue Timeout::Error
        nil # nothing else may come of it
      end
    end
    # Whoever comes next is let in, and finds nothing half done.
    assert_equal "true", child { Paceline::PStore.new(@file).transaction { |s| s[:n] == s[:twin] && s[:n].positive? } }, "seed #{seed}"
    assert_empty Paceline::Records.at(@file).instance_variable_get(:@users)
  end

  def test_threads_are_ended_at_any_moment_with_a_plain_file
    shared = Paceline::PStore.new(@file, true, format: :marshal)
    shared.transaction { |s| s[:n] = s[:twin] = 0 }
    random = Random.new(seed = Random.new_seed % 1_000_000)
    100.times do
      threads = Array.new(2) { Thread.new { loop { shared.transaction { |s| s[:n] += 1; s[:twin] = s[:n] } } } }
      random.rand(30).times { Thread.pass }
      threads.each(&:kill).each(&:join)
      begin
        Timeout.timeout([0.0005, 0.002].sample(random: random)) { shared.transaction { |s| s[:n] += 1; s[:twin] = s[:n] } }
      rescue Timeout::Error
        nil
      end
    end
    assert_equal "true", child { shared.transaction { |s| s[:n] == s[:twin] && s[:n].positive? } }, "seed #{seed}"
    assert_equal [File.basename(@file)], Dir.children(File.dirname(@file)).grep(/\A#{Regexp.escape(File.basename(@file))}/)
  end

  def test_what_a_killed_writer_of_a_plain_file_left_is_no_obstacle
    File.write("#{@file}.pstore-tmp", "half")
    plain = Paceline::PStore.new(@file, true, format: :marshal)
    plain.transaction { |s| s[:a] = 1 }
    refute File.exist?("#{@file}.pstore-tmp")
    assert_equal 1, plain.transaction(true) { |s| s[:a] }
  end

  def test_in_the_handler_of_a_signal_there_are_no_transactions_but_at_exit
    said = stranger(<<~RUBY)
      store.transaction { |s| s[:a] = 1 }
      trap(:USR1) { $said = begin; Paceline::PStore.new(ARGV[0]).transaction { |s| s[:a] = 9 }; rescue StandardError; $!.message; end }
      store.transaction { |s| Process.kill(:USR1, $$); sleep 0.001 until $said; s[:a] += 1 }
      print $said
      at_exit { store.transaction { |s| s[:a] += 1 } }
    RUBY
    assert_match(/trap context|nested/, said)
    assert_equal 3, read(:a)
  end

  def test_its_locks_may_be_left_but_not_be_deleted_while_it_is_used
    store.transaction { |s| s[:a] = 1 }
    Paceline::Records.at(@file).close
    # Left behind by a machine that was switched off, or by anything else.
    File.binwrite("#{@file}-lock", "\xff" * 100_000)
    store.transaction { |s| s[:a] = 2 }
    File.unlink("#{@file}-lock")
    assert_match(/store-lock was deleted while others use it/, stranger("store.transaction { |s| s[:a] = 9 } rescue print $!.message"))
    store.transaction { |s| s[:a] += 1 }
    assert_equal 3, read(:a)
    Paceline::Records.at(@file).close
    assert_equal "3", stranger("print store.transaction { |s| s[:a] }")
  end

  # A process loses LMDB's lock when it closes any descriptor of that file, and the next one to open it would begin the table of readers and the
  # writers' lock anew.
  def test_its_table_of_readers_stays_locked
    skip "no /proc/locks" unless File.readable?("/proc/locks")
    store.transaction { |s| s[:a] = 1 }
    assert_match(/POSIX +ADVISORY +READ +#{Process.pid} \S+:#{File.stat("#{@file}-lock").ino} 0 0$/, File.read("/proc/locks"))
  end

  def test_by_whatever_name_it_is_one_store
    Dir.mkdir("#{@folder}/elsewhere")
    File.symlink(@file, "#{@folder}/elsewhere/link")
    names = ["#{@folder}/elsewhere/link", "#{@folder}/elsewhere/../store", @file]
    store.transaction { |s| s[:n] = 0 }
    names.each { |name| Paceline::PStore.new(name).transaction { |s| s[:n] += 1 } }
    Dir.chdir(@folder) { Paceline::PStore.new("store").transaction { |s| s[:n] += 1 } }
    assert_equal [4, "nested transaction"], [read(:n), store.transaction { assert_raises(PStore::Error) { Paceline::PStore.new(names[0]).transaction {} }.message }]
    assert_empty Dir.children("#{@folder}/elsewhere") - ["link"]
    # Under a hard link it would have other locks.
    Paceline::Records.at(@file).close
    File.link(@file, "#{@folder}/second")
    [@file, "#{@folder}/second"].each do |name|
      assert_match(/a hard link/, assert_raises(Paceline::Records::Error) { Paceline::PStore.new(name).transaction { |s| s[:n] } }.message)
    end
  end

  def test_another_file_in_its_place_has_other_locks
    store.transaction { |s| s[:n] = 100 }
    other = "#{@folder}/other"
    50.times { Paceline::PStore.new(other).transaction { |s| s[:n] = (s[:n] || 0) + 1 } }
    Paceline::Records.at(other).close
    # This one still reads the old file.
    Paceline::Records.at(@file).snapshot do |now|
      File.rename(other, @file)
      assert_equal "51", stranger("print store.transaction { |s| s[:n] += 1 }")
      refute_nil now.get("r:\0n")
    end
    assert_equal 52, store.transaction { |s| s[:n] += 1 }
    assert_equal "53", stranger("print store.transaction { |s| s[:n] += 1 }")
  end

  def test_a_process_follows_when_another_makes_it_larger_than_it_has_mapped
    store.transaction { |s| s[:a] = 1 }
    Paceline::Records.at(@file).close
    # Mapped in 2 MB, where others have as much as they need.
    said = stranger(<<~RUBY)
      small = Paceline::Records.at(ARGV[0], max_size: 2_000_000)
      go = Queue.new
      inside = Thread.new { small.snapshot { go << 1; Thread.stop; Thread.pass } }
      go.pop
      Process.wait(spawn(RbConfig.ruby, *$options, "-e", "Paceline::PStore.new(ARGV[0]).transaction { |s| s[:large] = 'x' * 5_000_000 }", ARGV[0]))
      # Its own reader keeps it from following until it ends, and can end.
      Thread.new { sleep 0.001 until Thread.main.stop?; inside.run }
      print small["r:\\0large"].bytesize
    RUBY
    assert_operator said.to_i, :>, 5_000_000
  end

  def test_where_there_is_little_address_space_it_takes_less
    said = stranger("Process.setrlimit(:AS, 3_000_000_000); store.transaction { |s| s[:a] = 'x' * 2_000_000 }; print store.transaction(true) { |s| s[:a].size }")
    assert_equal "2000000", said
  end

  def test_a_file_that_may_not_be_written
    skip "only root can become somebody else" unless Process.uid.zero?
    store.transaction { |s| s[:a] = 1 }
    File.chmod(0o755, @folder)
    File.chmod(0o644, @file)
    said = child do
      Process::Sys.setuid(65_534)
      [true, false].map { |read_only| Paceline::PStore.new(@file, trust: true).transaction(read_only) { |s| s[:a] } rescue $!.message }.uniq
    end
    assert_equal ["Permission denied - #{@file}"].inspect, said
  end

  def test_a_file_system_that_nobody_can_write_to_is_read
    mounted("tmpfs") do |folder, remount|
      file = "#{folder}/store"
      stranger("store.transaction { |s| s[:a] = 1 }", file)
      remount.call("ro")
      assert_equal "1", stranger("print store.transaction(true) { |s| s[:a] }", file)
      assert_match(/Read-only/, stranger("store.transaction { |s| s[:a] = 2 } rescue print $!.message", file))
    end
  end

  def test_a_disk_that_is_full
    mounted("tmpfs", "size=1500k") { |folder| fill("#{folder}/store") }
  end

  def test_a_disk_of_ext4_that_is_full
    image = "#{@folder}/image"
    File.open(image, "w") { |disk| disk.truncate(4_000_000) }
    skip "no mkfs.ext4" unless system("mkfs.ext4", "-q", "-O", "^has_journal", image, out: File::NULL, err: File::NULL)
    mounted("ext4", "loop", image) { |folder| fill("#{folder}/store") }
  end

  def test_a_process_that_may_write_no_larger_files
    said = stranger(<<~RUBY)
      trap(:XFSZ, "IGNORE")
      store.transaction { |s| s[:n] = 0 }
      Process.setrlimit(:FSIZE, 600_000)
      #{FILL}
    RUBY
    assert_match(/\APaceline::Records::Full \d+ true\z/, said)
  end

  private

  FILL = <<~'RUBY'
    begin
      loop { store.transaction { |s| s[s[:n] += 1] = s[:n].to_s * (s[:n] * 997 % 20_000) } }
    rescue StandardError => e
      File.unlink("#{ARGV[0]}.other") if File.exist?("#{ARGV[0]}.other")
      n = store.transaction(true) { |s| s[:n] }
      # All is there, and there may be room for a smaller one.
      sound = store.transaction(true) { |s| (1..n).all? { |i| s[i] == i.to_s * (i * 997 % 20_000) } && s.roots.size == n + 1 }
      store.transaction { |s| (1..n).each { |i| s.delete(i) }; s[:n] = 1 }
      store.transaction { |s| s[:again] = "x" * 10_000 }
      print e.class, " ", n, " ", sound && store.transaction(true) { |s| s[:n] == 1 && s[:again].size == 10_000 }
    end
  RUBY

  # Something else lies there, too, which is given up then.
  def fill(file)
    File.write("#{file}.other", "x" * 400_000)
    assert_match(/\APaceline::Records::Full \d+ true\z/, stranger("store.transaction { |s| s[:n] = 0 }; #{FILL}", file))
  end

  def mounted(type, options = nil, device = "none")
    skip "only root can mount a disk" unless Process.uid.zero?
    folder = "#{@folder}/disk"
    Dir.mkdir(folder)
    skip "no disk can be mounted here" unless system("mount", "-t", type, *(["-o", options] if options), device, folder, err: File::NULL)
    begin
      yield folder, ->(how) { assert system("mount", "-o", "remount,#{how}", folder) }
    ensure
      system("umount", folder)
    end
  end

  def store
    @store ||= Paceline::PStore.new(@file)
  end

  def read(name)
    Paceline::PStore.new(@file).transaction(true) { |s| s[name] }
  end

  # What a child has to say, as `inspect` shows it.
  def child
    told, tell = IO.pipe
    @children << (pid = fork do
      told.close
      tell << (begin
        yield
      rescue StandardError => e
        "#{e.class}: #{e.message}"
      end).inspect
      tell.close
      exit!(0)
    end)
    tell.close
    Timeout.timeout(30) { told.read }
  ensure
    @children.delete(pid) && Process.kill(:KILL, pid) && Process.wait(pid) if pid
  end

  # A child that has called what its block is given, and stays there.
  def child_that_waits
    told, tell = IO.pipe
    @children << (pid = fork { yield -> { tell.syswrite("."); sleep } })
    told.readpartial(1)
    @children.delete(pid)
    [pid]
  end

  # What a process prints that has nothing of this one.
  def stranger(code, file = @file)
    options = ["-I#{File.expand_path("../../lib", __dir__)}", "-rpaceline/pstore"]
    before = "$options = #{options.inspect}; def store = ($store ||= Paceline::PStore.new(ARGV[0])); "
    Timeout.timeout(60) { IO.popen([RbConfig.ruby, *options, "-e", before + code, file, err: %i[child out]], &:read) }
  end
end
