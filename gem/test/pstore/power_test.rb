# frozen_string_literal: true

require "helper"
require "paceline/pstore"
require_relative "support/faults"

# The power fails: of what was written since the disk was last waited for any part may be on it, by sectors and in any order. Such files are made
# of what a process has written. `COUNT=` of them for each mode, `SEED=`.
class PStorePowerTest < Minitest::Test
  COUNT = Integer(ENV["COUNT"] || 150)
  SEED = Integer(ENV["SEED"] || Random.new_seed % 1_000_000)
  SECTOR = 512
  TRANSACTIONS = 25
  # What was asked of the system: a write (`sync`: that returns when it is on the disk), or (`bytes` none) to wait for all of them.
  Asked = Struct.new(:at, :bytes, :sync)

  def setup
    skip "there is no store without the native part" unless Paceline::Native
    skip "no C compiler (cc): nobody can tell what was written" unless Faults.library
    @folder = File.realpath(Dir.mktmpdir)
    @random = Random.new(SEED)
  end

  def teardown
    FileUtils.rm_rf(@folder) if @folder
  end

  def test_with_ultra_safe_all_that_was_acknowledged_is_there
    asked, acknowledged = recorded(true)
    found = Hash.new(0)
    COUNT.times do |trial|
      ends = acknowledged.first[0] + @random.rand(asked.size - acknowledged.first[0] + 1)
      known = acknowledged.select { |count, _| count <= ends }.map(&:last).max
      state = state_of(failed_at(asked, ends))
      assert_includes [[known], [known + 1]], state, "SEED=#{SEED}, trial #{trial}, after #{ends} of #{asked.size}"
      found[state[0] - known] += 1
    end
    puts "ultra_safe: #{found}" if ENV["COUNT"]
  end

  # But roots of different transactions may be side by side: a page that was used before may be on the disk as it was then.
  def test_without_it_each_root_is_whole_or_the_damage_is_noticed
    asked, = recorded(false)
    found = Hash.new(0)
    COUNT.times do |trial|
      state = state_of(failed_at(asked, 1 + @random.rand(asked.size)))
      # Each as it was after one of the transactions, or there never was one.
      assert(state == :damaged || state == [nil] || state.all?(1..TRANSACTIONS), "SEED=#{SEED}, trial #{trial}: #{state}")
      found[state == :damaged ? :damaged : state.size == 1 ? :sound : :mixed] += 1
    end
    puts "default: #{found}" if ENV["COUNT"]
  end

  private

  # What was asked for the file, and for each transaction how much of that when it was acknowledged.
  def recorded(ultra_safe)
    file, log = "#{@folder}/recorded", "#{@folder}/log"
    environment = Faults.environment(file, Faults::Orders.new("#{@folder}/orders"), log: log)
    ends = IO.popen([environment, RbConfig.ruby, "-I#{File.expand_path("../../lib", __dir__)}", File.expand_path("support/worker.rb", __dir__), file, "records", ultra_safe ? "1" : "0"], "r+") do |worker|
      Array.new(TRANSACTIONS) do |i|
        worker.puts("add")
        assert_equal "ok #{i + 1}", worker.gets.chomp
        [File.size(log), i + 1]
      end
    end
    asked, places = parse(File.binread(log), File.stat(file).ino)
    [asked, ends.map { |offset, count| [places.count { |place| place <= offset }, count] }]
  end

  def parse(log, inode)
    asked, places = [], []
    at = 0
    while at < log.size
      line = log.index("\n", at)
      kind, number, offset, length = log[at...line].split
      bytes = %w[W S].include?(kind) ? log.byteslice(line + 1, length.to_i) : nil
      at = line + 1 + (bytes ? bytes.bytesize : 0)
      next unless number.to_i == inode

      flunk "the file was made shorter" if kind == "T"
      asked << Asked.new(offset.to_i, bytes, kind == "S")
      places << at
    end
    [asked, places]
  end

  # The file when the power has failed after so many of them.
  def failed_at(asked, ends)
    done = asked.first(ends)
    waited = done.rindex { |one| one.bytes.nil? } || -1
    image = "".b
    done.first(waited + 1).each { |one| put(image, one.at, one.bytes) if one.bytes }
    pending = done.drop(waited + 1)
    # The next one was under way.
    pending << asked[ends] if asked[ends]&.bytes && @random.rand(2).zero?
    share = [0.0, 0.1, 0.5, 0.9, 1.0].sample(random: @random)
    whole = @random.rand(2).zero?
    pending.each_with_index do |one, index|
      next unless one.bytes

      certain = one.sync && index + waited + 1 < ends
      all = whole ? @random.rand < share : nil
      (0...one.bytes.bytesize).step(SECTOR) do |from|
        # Sectors are those of the file.
        put(image, one.at + from, one.bytes.byteslice(from, SECTOR)) if certain || (all.nil? ? @random.rand < share : all)
      end
    end
    image
  end

  def put(image, at, bytes)
    image << ("\0" * (at + bytes.bytesize - image.bytesize)) if image.bytesize < at + bytes.bytesize
    image[at, bytes.bytesize] = bytes
  end

  def large(value)
    value && value == [value[0], value[0].to_s * 5000] ? value[0] : value&.inspect
  end

  # What one finds who opens it: the counts in all of its roots, which should be one; or that it is damaged.
  def state_of(image)
    file = "#{@folder}/failed"
    FileUtils.rm_f([file, "#{file}-lock"])
    File.binwrite(file, image)
    Paceline::PStore.new(file).transaction { |s| [s[:count], *20.times.map { |i| s["part #{i}"]&.first }, large(s[:large])].uniq }
  rescue Paceline::Records::Damaged, Paceline::Records::Foreign
    assert_equal image, File.binread(file)
    :damaged
  ensure
    Paceline::Records.forget(file)&.close
  end
end
