# frozen_string_literal: true

require "session/support/backends"
require "paceline/session/command"
require "stringio"

# `paceline sessions`.
class SessionCommandTest < Minitest::Test
  include SessionBackends::Looks

  def setup
    skip "there is no store without the native part" unless Paceline::Native
    @folder = Dir.mktmpdir
    @store = File.join(@folder, "sessions.paceline")
  end

  def teardown
    FileUtils.rm_rf(@folder) if @folder
  end

  # Status and what was printed, on both.
  def command(*arguments)
    out, err = StringIO.new, StringIO.new
    [Paceline::Session::Command.run(arguments, out: out, err: err), out.string + err.string]
  end

  def test_counts_sweeps_and_clears
    @now = Time.now.to_i
    sessions = sessions(@store, idle: 3600)
    3.times { |number| sessions.create("id#{number}", { "a" => 1 }) }
    @now -= 7200
    1100.times { |number| sessions.create("old#{number}", {}) }
    status, said = command("stats", @store)
    assert_equal 0, status, said
    assert_match(/\A#{@store}: 1103 sessions, 1100 of them expired, \d+ KB\n\z/, said)
    assert_equal [0, "#{@store}: 1100 sessions removed\n"], command("sweep", @store)
    assert_equal [0, "#{@store}: 3 sessions removed\n"], command("clear", @store)
    assert_equal 0, count(@store)
    assert_nil sessions.find("id1")
  end

  def test_what_it_does_not_understand
    [[], %w[stats], %w[drop file], %w[stats a b], %w[--odd]].each do |arguments|
      status, said = command(*arguments)
      assert_equal 2, status, arguments.inspect
      assert_includes said, "Usage: paceline sessions stats FILE"
    end
    assert_equal [1, "paceline: #{@store} does not exist\n"], command("stats", @store)
    File.write(@store, "no sessions " * 1000)
    assert_equal 1, command("clear", @store)[0]
    assert_equal "no sessions " * 1000, File.read(@store)
  end
end
