# frozen_string_literal: true

require "helper"
require "paceline/pstore"
require_relative "support/faults"

# The system fails under a transaction, at each of its calls in turn: it raises what it should, what was committed is all there and nothing
# else, for the same process as soon as all is well again and for another one meanwhile.
class PStoreFaultTest < Minitest::Test
  ERRORS = { ENOSPC: "Paceline::Records::Full", EDQUOT: "Paceline::Records::Full", EFBIG: "Paceline::Records::Full", EIO: "Errno::EIO", EINTR: "Errno::EINTR",
             EMFILE: "Errno::EMFILE", ENOMEM: "Errno::ENOMEM" }.freeze

  def setup
    skip "there is no store without the native part" unless Paceline::Native
    skip "no C compiler (cc): nothing can be made to fail" unless Faults.library
    @folder = File.realpath(Dir.mktmpdir)
    @file = File.join(@folder, "store")
    @orders = Faults::Orders.new("#{@folder}/orders")
  end

  def teardown
    @worker&.close
    FileUtils.rm_rf(@folder) if @folder
  end

  # [calls, error, how]: `fail` only that call, `fail_on` it and all after it, until all is well again.
  WRITING = [[%i[write], :ENOSPC, :fail], [%i[write], :ENOSPC, :fail_on], [%i[write], :EDQUOT, :fail_on], [%i[write], :EIO, :fail], [%i[write], :EIO, :fail_on],
             [%i[write], :EINTR, :fail], [%i[sync], :EIO, :fail], [%i[sync], :EIO, :fail_on], [%i[sync], :ENOSPC, :fail], [%i[write], nil, :short], [%i[write], nil, :short_on]].freeze
  OPENING = [[%i[open], :EMFILE, :fail], [%i[open], :EIO, :fail_on], [%i[map], :ENOMEM, :fail], [%i[map], :ENOMEM, :fail_on], [%i[truncate], :ENOSPC, :fail], [%i[write], :ENOSPC, :fail],
             [%i[write], nil, :short], [%i[write], :EIO, :fail_on]].freeze

  %i[records marshal].product([false, true]).each do |format, ultra_safe|
    name = "#{format}#{"_ultra_safe" if ultra_safe}"

    define_method("test_faults_within_a_commit_#{name}") do
      start(format, ultra_safe)
      each_fault(WRITING, format)
    end
  end

  %i[records marshal].each do |format|
    define_method("test_faults_while_opening_#{format}") do
      start(format, false)
      each_fault(OPENING, format) { tell("close") if format == :records }
    end
  end

  def test_faults_while_making_a_store
    OPENING.each do |calls, error, how|
      (1..).each do |at|
        FileUtils.rm_f([@file, "#{@file}-lock"])
        start(:records, true)
        @orders.give(how, at, calls, error ? Errno.const_get(error)::Errno : 0)
        said = tell("add")
        reached = @orders.none >= at
        assert_expected(said, calls, error, how, at) unless said == "ok 1"
        assert_equal said == "ok 1" ? "ok 2" : "ok 1", tell("add"), "after #{how} #{error} of #{calls} #{at}: #{said}"
        break unless reached
      end
    end
  end

  private

  def start(format, ultra_safe)
    @worker&.close
    @worker = IO.popen([Faults.environment(@file, @orders), RbConfig.ruby, "-I#{File.expand_path("../../lib", __dir__)}", File.expand_path("support/worker.rb", __dir__),
                        @file, format.to_s, ultra_safe ? "1" : "0"], "r+")
    @reader = Paceline::PStore.new(@file, format: format)
  end

  def tell(line)
    @worker.puts(line)
    @worker.gets&.chomp || flunk("the process is gone")
  end

  def each_fault(faults, format)
    count = tell("add")[/\Aok (\d+)\z/, 1].to_i
    faults.each do |calls, error, how|
      (1..).each do |at|
        yield if block_given?
        @orders.give(how, at, calls, error ? Errno.const_get(error)::Errno : 0)
        said = tell("add")
        # While it still fails another process reads.
        seen = read
        reached = @orders.none >= at
        context = "#{how} #{error} of #{calls} #{at}: #{said}"
        if said == "ok #{count + 1}"
          count += 1
        else
          assert_expected(said, calls, error, how, at, format)
        end
        assert_equal [count], seen, context
        assert_equal ["ok [#{count}]", "ok #{count += 1}"], [tell("read"), tell("add")], "after #{context}"
        assert_equal [count], read, "after #{context}"
        break unless reached
      end
    end
  end

  def assert_expected(said, calls, error, how, at, format = :records)
    # Of a file that is too short LMDB says that the disk is full when it makes one.
    expected = error.nil? ? %w[Errno::EIO Paceline::Records::Full] : [format == :marshal ? "Errno::#{error}" : ERRORS.fetch(error)]
    assert_includes expected, said[/\A\S+/], "#{how} #{error} of #{calls} #{at}: #{said}"
  end

  def read
    @reader.transaction(true) { |s| [s[:count], *20.times.map { |i| s["part #{i}"]&.first }, s[:large]&.first].uniq }
  end
end
