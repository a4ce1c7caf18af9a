# frozen_string_literal: true

require "helper"
require "paceline/pstore"
require_relative "support/history"

# Recorded histories of 4 processes with 4 threads each, one transaction in five a writer, on one and on several roots: they must be those of
# transactions one after the other. And updates at random by as many: none is lost. `COUNT=` transactions of each thread, `SEED=`.
class PStoreHistoryTest < Minitest::Test
  COUNT = Integer(ENV["COUNT"] || 40)
  SEED = Integer(ENV["SEED"] || Random.new_seed % 1_000_000)
  ROOTS = Array.new(8) { |i| "root #{i}" }.freeze

  %i[records marshal].each do |format|
    define_method("test_a_history_in_the_format_#{format}") do
      skip "there is no store without the native part" unless Paceline::Native
      history, last = record(format) { |store, random, who| transaction(store, random, who) }
      assert_nil History.wrong(history, last), "SEED=#{SEED}"
      puts "#{format}: #{history.size} transactions, #{history.count { |one| one.wrote.any? }} of them writers: strictly serializable" if ENV["COUNT"]
    end
  end

  def test_no_update_is_lost
    skip "there is no store without the native part" unless Paceline::Native
    roots = ENV["COUNT"] ? 1000 : 50
    Dir.mktmpdir do |folder|
      threads(folder, :records) do |store, random, _|
        COUNT.times { store.transaction { |s| s[(root = random.rand(roots))] = (s[root] || 0) + 1 } }
        []
      end
      updates = Paceline::PStore.new("#{folder}/store").transaction(true) { |s| s.roots.sum { |root| s[root] } }
      assert_equal 16 * COUNT, updates, "SEED=#{SEED}"
      puts "#{updates} updates" if ENV["COUNT"]
    end
  end

  # The checker itself: a sound history, and what it must find.
  T = History::Transaction
  SOUND = [T.new("a", 0, 1, { x: 0, y: 0 }, { x: 1, y: 1 }), T.new("b", 2, 3, { x: 1 }, { x: 2 }), T.new("c", 2, 5, { x: 1, y: 1 }, {}), T.new("d", 4, 5, { x: 2 }, {})].freeze

  def test_the_checker_accepts_what_is_sound_and_finds_what_is_not
    last = { x: 2, y: 1 }
    assert_nil History.wrong(SOUND, last)
    {
      "a stale read" => [T.new("e", 4, 5, { x: 1 }, {}), /no order explains it/],
      "a read of the future" => [T.new("e", 0, 1, { x: 2 }, {}), /no order explains it/],
      "a torn read of several roots" => [T.new("e", 0, 9, { x: 2, y: 0 }, {}), /no order explains it/],
      "a lost update" => [T.new("e", 2, 3, { x: 1 }, { x: 2 }), /an update is lost/],
      "a read of what nobody wrote" => [T.new("e", 4, 5, { x: 7 }, {}), /nobody wrote/]
    }.each { |what, (added, message)| assert_match(message, History.wrong(SOUND + [added], last).to_s, what) }
    assert_match(/has been more/, History.wrong(SOUND, { x: 1, y: 1 }))
    # Of two readers, each of them possible alone: they saw two writers in different orders.
    writers = [T.new("a", 0, 9, { x: 0 }, { x: 1 }), T.new("b", 0, 9, { y: 0 }, { y: 1 })]
    skewed = [T.new("c", 0, 9, { x: 1, y: 0 }, {}), T.new("d", 0, 9, { x: 0, y: 1 }, {})]
    assert_match(/no order explains it/, History.wrong(writers + skewed, { x: 1, y: 1 }))
    assert_nil History.wrong(writers + skewed.first(1), { x: 1, y: 1 })
  end

  private

  def record(format)
    Dir.mktmpdir do |folder|
      history = threads(folder, format) { |store, random, who| Array.new(COUNT) { yield store, random, who } }
      last = Paceline::PStore.new("#{folder}/store", format: format).transaction(true) { |s| ROOTS.to_h { |root| [root, s[root] || 0] } }
      [history, last]
    end
  end

  # What the block returns for each of 4 threads of 4 processes, which begin together.
  def threads(folder, format)
    go, start = IO.pipe
    pipes = Array.new(4) do |process|
      told, tell = IO.pipe
      pid = fork do
        start.close
        told.close
        go.read
        all = Array.new(4) do |thread|
          Thread.new { yield Paceline::PStore.new("#{folder}/store", format: format), Random.new(SEED * 16 + process * 4 + thread), "process #{process}, thread #{thread}" }
        end
        tell << Marshal.dump(all.flat_map(&:value))
        tell.close
        exit!(0)
      end
      tell.close
      [pid, told]
    end
    go.close
    start.close
    all = pipes.map { |_, told| told.read }
    assert(pipes.all? { |pid, _| Process.wait2(pid)[1].success? })
    all.flat_map { |bytes| Marshal.load(bytes) }
  end

  def transaction(store, random, who)
    writer = random.rand(5).zero?
    roots = ROOTS.sample([1, 1, 2, 3, 8][random.rand(5)], random: random)
    read, wrote = {}, {}
    from = now
    store.transaction(!writer) do |s|
      roots.each { |root| read[root] = s[root] || 0 }
      roots.each { |root| wrote[root] = s[root] = read[root] + 1 } if writer
    end
    History::Transaction.new(who, from, now, read, wrote)
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  end
end
