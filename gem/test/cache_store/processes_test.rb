# frozen_string_literal: true

require_relative "support/caches"

# What several processes do at once, and what happens to those that die. `SEED=` and `COUNT=` (kills) for other and longer runs.
class CacheProcessesTest < CacheTestCase
  SEED = Integer(ENV["SEED"] || Random.new_seed % 1_000_000)
  COUNT = Integer(ENV["COUNT"] || 40)

  def test_nothing_that_is_counted_is_lost
    store = rails_store(size: 1.megabyte)
    store.write("count", 0)
    all = barrier(4)
    in_processes(4) do |number|
      all.call
      threads = Array.new(2) do |thread|
        Thread.new do
          100.times { |n| n.even? ? store.increment("count", 3) : store.decrement("count", 1) }
          100.times { |n| store.write("other#{number}#{thread}#{n}", "x" * 10_000) }
        end
      end
      threads.each(&:join)
      nil
    end
    assert_equal 4 * 2 * 50 * 2, rails_store.read("count") || "evicted"
    assert_sound
  end

  def test_one_of_many_writes_unless_it_is_there
    store = rails_store
    all = barrier(6)
    written = in_processes(6) do |number|
      Array.new(20) do |n|
        all.call if n.zero?
        store.write("k#{n}", number, unless_exist: true)
      end
    end
    20.times do |n|
      winners = (0..5).select { |number| written[number][n] }
      assert_equal [store.read("k#{n}")], winners
    end
  end

  # Loads like Marshal; with a barrier the first time, so that all have read what has expired before one of them says so.
  class WaitingCoder
    def initialize(barrier)
      @barrier = barrier
    end

    def dump(entry)
      Marshal.dump(entry)
    end

    def load(payload)
      entry = Marshal.load(payload)
      @barrier&.call
      @barrier = nil
      entry
    end
  end

  def test_one_of_many_makes_anew_what_has_expired
    count = 5
    rails_store(coder: WaitingCoder.new(nil)).write("k", "old", expires_in: 0.001)
    Timeout.timeout(10) { Thread.pass while rails_store(coder: WaitingCoder.new(nil)).exist?("k") }
    all = barrier(count)
    told, tell = IO.pipe
    gone, go = IO.pipe
    waiting = Thread.new do
      # All the others have their answer, before there is a new one.
      (count - 1).times { told.read(1) }
      go.write(".")
    end
    answers = in_processes(count) do
      made = false
      value = rails_store(coder: WaitingCoder.new(all)).fetch("k", race_condition_ttl: 60, expires_in: 60) do
        made = true
        Timeout.timeout(20) { gone.read(1) }
        "new"
      end
      tell.syswrite(".") unless made
      [value, made]
    end
    assert_equal [["new", true]] + [["old", false]] * (count - 1), answers.sort_by(&:first)
    assert_equal "new", rails_store(coder: WaitingCoder.new(nil)).read("k")
  ensure
    waiting&.kill
  end

  def test_a_store_that_was_opened_before_a_fork
    store = rails_store
    store.write("a", 1)
    threads = Array.new(2) { |n| Thread.new { 300.times { |i| store.write("t#{n}", i) && store.read("a") } } }
    answers = in_processes(3) do |number|
      store.write("child#{number}", number)
      [store.read("a"), store.increment("count", 1), store.fetch("child#{number}") { :none }]
    end
    threads.each(&:join)
    assert_equal [[1, 0], [1, 1], [1, 2]], answers.map { |a, _, c| [a, c] }.sort
    assert_equal({ "child0" => 0, "child1" => 1, "child2" => 2, "t0" => 299 }, store.read_multi("child0", "child1", "child2", "t0"))
    assert_sound
  end

  def test_what_was_written_outlives_its_process_however_it_ends
    random = Random.new(SEED)
    known = { nil => 0 }
    outlived = 0
    COUNT.times do |trial|
      told, tell = IO.pipe
      pids = Array.new(2) { fork { told.close; write_on(tell) } }
      tell.close
      first = told.readpartial(4096)
      random.rand(200).times { Thread.pass }
      pids.each { |pid| Process.kill(:KILL, pid) }
      pids.each { |pid| Process.wait(pid) }
      said = (first + told.read).lines.select { |line| line.end_with?("\n") }.map(&:split)
      told.close
      context = "SEED=#{SEED}, trial #{trial}"
      # It may have gone to make room, and begun again; but whatever there is of it is its last.
      life, count = engine(size: MEGABYTE).read("count")&.value.to_s.split
      last = [known[life].to_i, *said.filter_map { |one, number| number.to_i if one == life }].max
      assert_includes last..last + 2, count.to_i, context
      outlived += 1 if known.key?(life)
      known = { life => count.to_i }
      assert_sound(context)
    end
    assert_operator outlived, :>, COUNT / 4
    assert_operator File.size(@file), :<=, MEGABYTE
  end

  def test_a_disk_that_is_full
    # Files of the process may not be larger.
    most = 3_000_000
    errors, answers, lines = in_processes(1) do
      trap("XFSZ", "IGNORE")
      Process.setrlimit(Process::RLIMIT_FSIZE, most, most)
      errors = []
      log = StringIO.new
      ActiveSupport::Cache::Store.logger = Logger.new(log) if defined?(ActiveSupport::Cache)
      store = rails_store(error_handler: ->(method:, exception:, **) { errors << [method, exception.class.name] })
      answers = Array.new(300) do |n|
        written = store.write("k#{n}", Random.bytes(1 + 197 * n))
        [written, store.read("k#{n}").nil?]
      end
      [errors.tally, answers.tally, log.string]
    end.first
    assert_operator File.size(@file), :<=, most
    # What is said to be written is there, and the rest is not; it goes on in the room that there is.
    assert_empty answers.keys - [[true, false], [false, true], [nil, true]]
    assert_operator answers[[true, false]], :>, 290, errors.inspect
    assert_match(/since the disk is full/, lines)
    assert_empty errors.keys.map(&:last).uniq - %w[Paceline::Records::Full]
    assert_sound
  end

  private

  # Tells of each number after it was written, among entries that come and go.
  def write_on(tell)
    cache = engine(size: MEGABYTE)
    random = Random.new
    loop do
      count = nil
      cache.update("count") do |old|
        life, number = old ? old[0].split : ["#{Process.pid}/#{random.rand(1 << 40)}", 0]
        [count = "#{life} #{number.to_i + 1}", Float::INFINITY]
      end
      tell.syswrite("#{count}\n")
      cache.write("k#{random.rand(100)}", random.bytes(random.rand(30_000)), Time.now.to_f + random.rand(-1.0..3.0))
      cache.read("count")
      cache.delete("k#{random.rand(100)}")
    rescue Paceline::Records::Full
      # Another reads what was there before, for as long as it is not given a core.
    end
  end
end
