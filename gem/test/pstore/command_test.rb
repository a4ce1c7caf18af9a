# frozen_string_literal: true

require "helper"
require "pstore"
require "stringio"
require "tmpdir"
require "paceline/pstore/command"

# `paceline pstore`.
class PStoreCommandTest < Minitest::Test
  # Its own name, whoever has taken ::PStore's.
  RUBYS = ::PStore
  Gone = Struct.new(:value)

  def setup
    skip "there is no store without the native part" unless Paceline::Native
    @folder = Dir.mktmpdir
    @file = File.join(@folder, "guide.pstore")
    RUBYS.new(@file).transaction do |store|
      store[:beers] = %w[Kölsch Alt]
      store["notes"] = { 1 => "hazy" }
    end
  end

  def teardown
    FileUtils.rm_rf(@folder) if @folder
  end

  # Status and what was printed, on both.
  def command(*arguments)
    out, err = StringIO.new, StringIO.new
    [Paceline::PStore::Command.run(arguments, out: out, err: err), out.string + err.string]
  end

  def test_there_and_back
    plain = File.binread(@file)
    assert_match(/\A#{@file}: sound, 2 roots, 1 KB\n\z/, command("check", @file)[1])
    assert_equal plain, File.binread(@file), "who checks changes nothing"
    status, said = command("import", @file)
    assert_equal 0, status
    assert_match(/\A#{@file}: sound, 2 roots, \d+ KB; the old file is #{@file}\.bak\n\z/, said)
    assert_equal plain, File.binread("#{@file}.bak")
    assert_equal [0, "#{@file}: is one of Paceline's already\n"], command("import", @file)
    Paceline::PStore.new(@file).transaction { |store| store[:new] = 1 }
    assert_match(/: sound, 3 roots, /, command("check", @file)[1])
    to = File.join(@folder, "plain")
    assert_equal [0, "#{to}: 3 roots\n"], command("export", @file, to)
    assert_equal 0o600, File.stat(to).mode & 0o777
    assert_equal [[:beers, "notes", :new], %w[Kölsch Alt]], RUBYS.new(to).transaction(true) { |store| [store.roots, store[:beers]] }
    assert_equal [1, "paceline: #{to} exists already: delete it, or name another file\n"], command("export", @file, to)
  end

  def test_what_is_wrong_with_a_file_is_said
    Paceline::PStore.new(@file).transaction { |store| store[:gone] = Gone.new(1) }
    kept = self.class.send(:remove_const, :Gone)
    status, said = command("check", @file)
    assert_equal 0, status
    assert_match(/: sound, 3 roots, .*\n  not loaded: :gone: (undefined class\/module|uninitialized constant) PStoreCommandTest::Gone\n\z/, said)
    File.truncate(@file, File.size(@file) / 2)
    status, said = command("check", @file)
    assert_equal 1, status
    assert_match(/\Apaceline: #{@file}: .*cut off/, said)
    File.write(@file, "no store " * 1000)
    assert_equal 1, command("check", @file)[0]
    assert_equal "no store " * 1000, File.read(@file)
    File.chmod(0o666, "#{@file}.bak")
    assert_match(/everybody may write to it/, command("check", "#{@file}.bak")[1])
    assert_equal 0, command("--trust", "check", "#{@file}.bak")[0]
  ensure
    self.class.const_set(:Gone, kept) if kept
  end

  def test_what_it_does_not_understand
    [[], %w[check], %w[drop file], %w[export a], %w[check a b], %w[--odd]].each do |arguments|
      status, said = command(*arguments)
      assert_equal 2, status, arguments.inspect
      assert_includes said, "Usage: paceline pstore import FILE"
    end
    assert_equal [1, "paceline: /no/such does not exist\n"], command("check", "/no/such")
  end
end
