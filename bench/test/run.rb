# frozen_string_literal: true

# Runs the tests of the benchmarks' arithmetic, and of what they refuse to report: `ruby bench/test/run.rb`. Servers of a few lines stand in for real
# ones; nothing is measured. A process that the tests leave behind makes the run fail.
require_relative "support/leftovers"

leftovers = Leftovers.new
# In a process of their own: the benchmarks' code takes what it adopts for a server's, and ends it.
tests = fork do
  Bench::Processes.new.end_with_parent
  require "minitest/autorun"
  Dir[File.join(__dir__, "*_test.rb")].sort.each { |path| require path }
end
_, status = Process.wait2(tests)
left = leftovers.clear
abort "left behind by the tests:\n#{left.map { |pid, title| "  #{pid} #{title}" }.join("\n")}" if left.any?
exit status.success? || false
