# frozen_string_literal: true

require "helper"

# The runner of test files by processes: which of them run at the same time.
class FilesInProcessesTest < Paceline::Test
  RUNNER = File.expand_path("../../test/files_in_processes.rb", __dir__)
  # The first of two that may not run together waits for the third, which may.
  FILE = <<~'RUBY'
    if ARGV[0] == "other"
      File.write("gate", "here")
    else
      abort "two at a time" unless File.open("lock", "w").flock(File::LOCK_EX | File::LOCK_NB)
      File.read("gate") if ARGV[0] == "single 1"
    end
    puts "1 runs, 0 assertions, 0 failures, 0 errors, 0 skips"
  RUBY
  ALL = 'exit FilesInProcesses.new(2, [RbConfig.ruby, "-e", ARGV[0]]) { |file| file.start_with?("single") }.run(["single 1", "single 2", "other"])'

  def test_one_of_its_kind_runs_beside_others
    in_tmpdir do |dir|
      File.mkfifo(File.join(dir, "gate"))
      out, status = Open3.capture2e(RbConfig.ruby, "-r", RUNNER, "-e", ALL, FILE, chdir: dir)
      assert_predicate status, :success?, out
      assert_equal "3 runs, 0 assertions, 0 failures, 0 errors, 0 skips", out.lines.last.chomp
    end
  end
end
