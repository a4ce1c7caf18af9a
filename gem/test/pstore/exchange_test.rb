# frozen_string_literal: true

require "helper"
require "fileutils"
require "tmpdir"
require "timeout"
require "paceline/pstore"

# A file that is exchanged while somebody waits for its lock.
class PStoreExchangeTest < Minitest::Test
  def setup
    skip "there is no store without the native part" unless Paceline::Native
    @folder = Dir.mktmpdir
    @file = File.join(@folder, "app.pstore")
    @fresh = File.join(@folder, "fresh")
  end

  def teardown
    FileUtils.rm_rf(@folder) if @folder
  end

  def test_a_transaction_that_waited_has_the_file_that_is_there_for_itself
    [@file, @fresh].each { |path| Paceline::PStore.new(path).transaction { |s| s[:from] = File.basename(path) } }
    told, tell = IO.pipe
    pid = nil
    File.open(@file) do |old|
      old.flock(File::LOCK_EX)
      pid = fork { Paceline::PStore.new(@file).transaction { |s| tell.write([s[:from], locked?].join(" ")) && s[:to] = 1 } && exit!(true) }
      Timeout.timeout(60) { Thread.pass until waiting?(pid) }
      File.rename(@fresh, @file)
      FileUtils.mv("#{@fresh}-lock", "#{@file}-lock")
      # The child has the same file open, so that to close it is not enough.
      old.flock(File::LOCK_UN)
    end
    tell.close
    assert_equal "fresh true", told.read
    assert_predicate Process.wait2(pid)[1], :success?
    assert_equal ["fresh", 1], Paceline::PStore.new(@file).transaction(true) { |s| [s[:from], s[:to]] }
  ensure
    [told, tell].each { |io| io&.close }
  end

  private

  def locked? = File.open(@file) { |file| !file.flock(File::LOCK_EX | File::LOCK_NB) }

  # Whether the process waits for a lock.
  def waiting?(pid) = File.readlines("/proc/locks").any? { |line| line.match?(/-> FLOCK .* #{pid} /) }
end
