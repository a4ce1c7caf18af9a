# frozen_string_literal: true

require "helper"
require "paceline/pstore"
require_relative "../support/interruption"

# Another thread may raise something (Timeout), or end this one, whenever a method that is written in C returns. Here it happens at each of
# these moments, one after the other: every time the file, its locks and what LMDB has open are given back.
class PStoreInterruptionTest < Minitest::Test
  include Interruption

  def setup
    @folder = File.realpath(Dir.mktmpdir)
    @file = File.join(@folder, "store")
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  # Yields a store, once for each moment at which it is interrupted. Afterwards everything is as if nothing had been.
  def at_every_moment(format)
    skip "there are no records without the native part" unless format == :marshal || Paceline::Native
    Paceline::PStore.new(@file, true, format: format).transaction { |s| s[:n] = s[:twin] = 0 }
    moments = (1..).take_while do |calls|
      stopped = stopped?(calls) { yield Paceline::PStore.new(@file, true, format: format), calls }
      File.open(@file) { |file| assert file.flock(File::LOCK_EX | File::LOCK_NB), "call #{calls}: the file is locked" }
      # Opened anew, which nothing of before prevents.
      Paceline::Records.at(@file).close if format == :records
      n, twin = Thread.new { Paceline::PStore.new(@file, true, format: format).transaction(true) { |s| [s[:n], s[:twin]] } }.value
      assert_equal n, twin, "call #{calls}: half of a transaction"
      stopped
    end
    assert_operator moments.size, :>, 20
  end

  %i[records marshal].each do |format|
    define_method("test_a_transaction_of_#{format}_that_writes") do
      at_every_moment(format) { |store, calls| store.transaction { |s| s[:n] = s[:twin] = calls } }
    end

    define_method("test_a_transaction_of_#{format}_that_reads") do
      at_every_moment(format) { |store, _| store.transaction(true) { |s| s[:n] } }
    end

    define_method("test_a_store_of_#{format}_may_be_used_again") do
      store = Paceline::PStore.new(@file, true, format: format)
      at_every_moment(format) { |_, calls| store.transaction { |s| s[:n] = s[:twin] = calls } }
      assert_equal "yes", store.transaction { "yes" }
    end
  end

  def test_a_store_that_is_closed_unless_it_is_used
    at_every_moment(:records) do |store, calls|
      store.transaction { |s| s[:n] = s[:twin] = calls }
      Paceline::Records.at(@file).close_if_idle
    end
    records = Paceline::Records.at(@file)
    assert_equal [0, false], [records.instance_variable_get(:@users).size, records.instance_variable_get(:@mutex).locked?]
  end
end
