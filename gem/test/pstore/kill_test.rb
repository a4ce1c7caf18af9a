# frozen_string_literal: true

require "helper"
require "tmpdir"
require "paceline/pstore"

# Writers killed at any moment: nothing that was committed is lost, nothing is half there. `COUNT=10000` for as many kills (a short run of them
# is one of the tests), `FORMAT=marshal` for the plain file, `ULTRA_SAFE=1`.
class PStoreKillTest < Minitest::Test
  COUNT = Integer(ENV["COUNT"] || 60)
  SEED = Integer(ENV["SEED"] || Random.new_seed % 1_000_000)

  def test_what_was_committed_outlives_its_process
    skip "there is no store without the native part" unless Paceline::Native
    formats = ENV["FORMAT"] ? [ENV["FORMAT"].to_sym] : %i[records marshal]
    formats.each { |format| Dir.mktmpdir { |folder| kill_often(File.join(folder, "store"), format, Random.new(SEED)) } }
  end

  private

  def kill_often(file, format, random)
    known = 0
    COUNT.times do |trial|
      told, tell = IO.pipe
      pids = Array.new(2) { fork { told.close; write_on(file, format, tell) } }
      tell.close
      # The first have begun: from here on the kills come between a few and a few hundred microseconds.
      first = told.readpartial(4096)
      random.rand(200).times { Thread.pass }
      pids.each { |pid| Process.kill(:KILL, pid) }
      pids.each { |pid| Process.wait(pid) }
      said = (first + told.read).lines.select { |line| line.end_with?("\n") }.map(&:to_i)
      told.close
      known = [known, *said].max
      found = store(file, format).transaction(true) { |s| [s[:count], s[:twin], s[:list]&.size] }
      context = "SEED=#{SEED}, #{format}, trial #{trial}: known #{known}, found #{found}"
      assert_operator found[0], :>=, known, context
      # Each writer may have committed one that it could not tell of.
      assert_operator found[0], :<=, known + 2, context
      assert_equal found[0], found[1], context
      assert_equal found[0] % 50, found[2], context
      known = found[0]
    end
  end

  # Tells of each count after its transaction.
  def write_on(file, format, tell)
    mine = store(file, format)
    loop do
      count = mine.transaction do |s|
        s[:count] = (s[:count] || 0) + 1
        s[:twin] = s[:count]
        s[:list] = (s[:list] || []) << ("x" * 500)
        s[:list] = [] if s[:count] % 50 == 0
        s[:count]
      end
      tell.syswrite("#{count}\n")
    end
  end

  def store(file, format)
    Paceline::PStore.new(file, format: format).tap { |store| store.ultra_safe = !ENV["ULTRA_SAFE"].nil? }
  end
end
