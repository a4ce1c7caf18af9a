# frozen_string_literal: true

require "helper"
require "logger"
require "stringio"
require "timeout"
require "tmpdir"
require "paceline/cache_store"
begin
  require "active_support"
  require "active_support/core_ext/object/blank"
  require "active_support/core_ext/numeric/bytes"
  require "active_support/core_ext/numeric/time"
  require "active_support/cache"
  require "active_support/testing/time_helpers"
rescue LoadError
  # There is no Rails here.
end

# A folder, and caches in it.
class CacheTestCase < Minitest::Test
  MEGABYTE = 1024 * 1024

  def setup
    @verbose = $VERBOSE
    skip "there is no store without the native part" unless Paceline::Native
    @folder = Dir.mktmpdir
    @file = File.join(@folder, "cache.paceline")
    @lines = []
  end

  def teardown
    FileUtils.rm_rf(@folder) if @folder
    # Rails 7.1 and later silence warnings while they look for MessagePack; where several threads do, it may stay so.
    $VERBOSE = @verbose
  end

  private

  def engine(size: 64 * MEGABYTE)
    Paceline::CacheStore.new(@file, size: size, log: @lines.method(:<<))
  end

  # Rails' store on the file.
  def rails_store(**options)
    skip "there is no Rails here" unless defined?(ActiveSupport::Cache)
    ActiveSupport::Cache.lookup_store(:paceline_file_store, @file, { error_handler: method(:flunk_of) }.merge(options))
  end

  def flunk_of(method:, exception:, **)
    flunk "#{method} failed: #{exception.class}: #{exception.message}"
  end

  # Runs the block in so many processes, each with its number, and returns what they return.
  def in_processes(count)
    readers = Array.new(count) do |number|
      reader, writer = IO.pipe
      pid = fork do
        reader.close
        writer.write(Marshal.dump(yield(number)))
        writer.close
        Process.exit!(0)
      rescue Exception => e
        warn "#{e.class}: #{e.message}", e.backtrace.first(5)
        Process.exit!(1)
      end
      writer.close
      [pid, reader]
    end
    readers.map do |pid, reader|
      told = Timeout.timeout(150) { reader.read }
      assert Process.wait2(pid)[1].success?, "a process failed"
      Marshal.load(told)
    end
  ensure
    readers&.each { |_, reader| reader.close }
  end

  # Processes that are forked after this wait for each other in `call`.
  def barrier(count)
    arrived, arrive = IO.pipe
    gone, go = IO.pipe
    Thread.new do
      count.times { arrived.read(1) }
      go.write("." * count)
    end
    lambda do
      arrive.syswrite(".")
      Timeout.timeout(30) { gone.read(1) }
    end
  end

  # Every entry is whole, in the queue once, and to expire when it says; nothing else is in the file. Returns how many entries there are.
  def assert_sound(context = nil)
    all = Paceline::Records.at(@file).snapshot { |now| now.scan("", 1_000_000) }.to_h
    queued = all.select { |key, _| key.start_with?("q") }
    expected = queued.flat_map do |key, value|
      _, expires, size = value.unpack("CGN")
      hash = value.byteslice(13, 16)
      number = key.byteslice(1, 8)
      pieces = Array.new((size - 1) / 4076 + 1) { |n| n.zero? ? "e#{hash}" : "e#{hash}#{[n].pack("N")}" }
      assert_equal size, pieces.sum { |piece| all.fetch(piece).bytesize }, context
      assert_equal [expires, number], [all[pieces[0]].unpack1("G"), all[pieces[0]].byteslice(8, 8)], context
      [key, *pieces, *("x#{[expires].pack("G")}#{number}" if expires < Float::INFINITY)].map(&:b)
    end
    assert_equal expected.sort, all.keys.reject { |key| key == "p" }.sort, context
    queued.size
  end
end
