# frozen_string_literal: true

require_relative "support/caches"

# The file never has more bytes than it may have, whatever is written by however many. `SEED=` and `COUNT=` (writes of each process) for other
# and longer runs.
class CacheBoundsTest < CacheTestCase
  SEED = Integer(ENV.fetch("SEED", "1"))
  COUNT = Integer(ENV["COUNT"] || 1500)

  { "small values" => [MEGABYTE, 600], "values of all sizes" => [4 * MEGABYTE, 200_000] }.each do |what, (size, largest)|
    define_method("test_#{what.tr(" ", "_")}_by_several_processes") do
      kept = in_processes(3) { |number| load_it(Random.new(SEED + number), size, largest) }
      assert_operator assert_sound("SEED=#{SEED}"), :>, 10
      assert_operator File.size(@file), :<=, size, "SEED=#{SEED}"
      assert_operator File.size(@file), :>, size / 2, "the load is too small to say anything"
      # Writes are refused only where there is no room to be made.
      assert_operator kept.sum, :>=, COUNT * 3 * 0.95, "SEED=#{SEED}, #{kept.inspect}"
    end
  end

  def test_what_a_killed_reader_has_read_is_no_obstacle
    cache = engine(size: MEGABYTE)
    random = Random.new(SEED)
    cache.write("a", "1")
    20.times do
      told, tell = IO.pipe
      pid = fork { Paceline::Records.at(@file).snapshot { |now| now.count && tell.syswrite(".") && sleep } }
      told.read(1)
      Process.kill(:KILL, pid)
      Process.wait(pid)
    end
    500.times { |n| assert cache.write("k#{n}", random.bytes(random.rand(20_000))), "write #{n}, SEED=#{SEED}" }
    assert_operator File.size(@file), :<=, MEGABYTE
  end

  def test_one_commit_removes_no_more_than_some_entries
    cache = engine(size: 4 * MEGABYTE)
    cache.write_many(Array.new(12_000) { |n| ["k#{n}", ["x" * 100, Float::INFINITY]] }.to_h)
    before = assert_sound
    cache.write("large", "x" * 250_000)
    # And as many again for each time that room must be made.
    assert_operator before - assert_sound, :<=, 5 * 256
    assert cache.read("large")
  end

  private

  # Returns how many were kept.
  def load_it(random, size, largest)
    cache = engine(size: size)
    kept = 0
    COUNT.times do |n|
      key = "k#{random.rand(2000)}"
      length = random.rand(4).zero? ? random.rand(largest) : random.rand(600)
      expires = random.rand(3).zero? ? Time.now.to_f + random.rand(-1.0..5.0) : Float::INFINITY
      kept += 1 if cache.write(key, random.bytes(length), expires)
      cache.read("k#{random.rand(2000)}")
      cache.delete("k#{random.rand(2000)}") if random.rand(10).zero?
      raise "#{File.size(@file)} bytes" if (n % 50).zero? && File.exist?(@file) && File.size(@file) > size
    rescue Paceline::Records::Full
      next
    end
    kept
  end
end
