# frozen_string_literal: true

# What bin/build shows of a build: Cargo's part is played by a script that says what Cargo says.
#
#   ruby test/fresh/build_test.rb
require "minitest/autorun"
require "open3"
require "pty"
require "tempfile"
require "timeout"

BUILD = File.expand_path("../../bin/build", __dir__)
load BUILD

class ProgressTest < Minitest::Test
  def test_tells_the_crate_and_its_neighbours
    progress = Progress.new(0)
    progress.line(7, 200, "tokio, hyper")
    assert_equal "crate 8 of 200: tokio, hyper", progress.to_s(1)
  end

  def test_guesses_no_time_from_the_first_crates
    progress = Progress.new(0)
    progress.line(3, 200, "")
    3.times { progress.done("small", false, 5) }
    assert_nil progress.left(6)
  end

  def test_time_left_counts_the_large_crates_that_are_to_come
    small = 100
    heavy = Progress::WEIGHTS.sum { |_, weight| weight }
    progress = Progress.new(0)
    progress.line(small, 2 * small, "")
    small.times { progress.done("small", false, 50) }
    assert_in_delta 50.0 * (small + heavy) / small, progress.left(50)
    assert_in_delta progress.left(50) - 10, progress.left(60), 0.01, "time goes on while nothing is done"
    assert_nil progress.left(100_000), "no guess is better than a wrong one"
  end

  def test_what_was_compiled_before_says_nothing_of_the_pace
    progress = Progress.new(0)
    progress.line(190, 200, "")
    190.times { progress.done("small", true, 1) }
    assert_nil progress.left(10)
  end
end

class BuildTest < Minitest::Test
  CRATES = <<~'RUBY'
    20.times do |i|
      $stderr.print "    Building [=> ] #{i}/20: tokio, hyper(build)   \r"
      puts %({"reason":"compiler-artifact","package_id":"registry+x#c@1","target":{"name":"c#{i}"},"fresh":false})
    end
  RUBY

  def test_a_line_now_and_then_where_there_is_no_terminal
    said, status = Open3.capture2e(cargo("#{CRATES}$stderr.puts '   Compiling paceline v1', '    Finished x'"), BUILD, "demo")
    assert status.success?
    assert_operator said.lines.size, :>=, 1
    assert(said.lines.all? { |line| line.match?(/\A    crate \d+ of 20(, .* left)?: tokio, hyper\(build\)\n\z/) }, said)
  end

  def test_one_line_of_a_terminal_that_is_gone_in_the_end
    said = on_terminal(CRATES)
    lines = said.split("\r\e[K")
    assert(lines.all? { |line| line.delete("\r\n").size < 80 }, said)
    assert_includes said, "crate 20 of 20"
    assert said.end_with?("\r\e[K"), said.inspect
  end

  def test_what_the_compiler_complains_of_is_printed_and_its_status_kept
    said, status = Open3.capture2e(cargo(CRATES + "$stderr.puts 'error: no such thing', '', ' --> src/x.rs:3'; exit 101"), BUILD)
    assert_equal 101, status.exitstatus
    assert_includes said, "error: no such thing\n\n --> src/x.rs:3\n"
  end

  def test_the_profile_is_cargos
    said, = Open3.capture2e(cargo("$stderr.puts ARGV.join(' ')"), BUILD, "demo", "--locked")
    assert_match(/\Abuild --profile demo --bin paceline .* --locked$/, said)
  end

  def test_an_interrupt_ends_it_with_one_sentence
    said = on_terminal("#{CRATES}begin; $stdout.flush; sleep; rescue Interrupt; exit 130; end") { |input| input.write("\x03") }
    assert_includes said, "Building was stopped; what is compiled is kept for the next time."
    refute_includes said, "Interrupt"
  end

  private

  def cargo(script)
    @cargo = Tempfile.create("cargo")
    @cargo.write("#!/usr/bin/env ruby\n$stdout.sync = $stderr.sync = true\n#{script}")
    @cargo.close
    File.chmod(0o755, @cargo.path)
    { "CARGO" => @cargo.path }
  end

  # What it prints on a terminal of 80 columns; the block types something once the last crate is shown.
  def on_terminal(script)
    said = +""
    PTY.spawn(cargo(script), "stty cols 80; exec #{BUILD} demo") do |output, input, pid|
      Timeout.timeout(60) do
        said << output.readpartial(4096) until !block_given? || said.include?("crate 20 of 20")
        yield input if block_given?
        loop { said << output.readpartial(4096) }
      end
    rescue Errno::EIO
      Process.wait(pid)
    end
    said
  end

  def teardown
    File.unlink(@cargo.path) if @cargo
  end
end
