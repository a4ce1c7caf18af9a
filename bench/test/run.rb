# frozen_string_literal: true

# Runs the tests of the benchmarks' arithmetic, and of what they refuse to report: `ruby bench/test/run.rb`. Servers of a few lines stand in for real
# ones; nothing is measured.
require "minitest/autorun"
Dir[File.join(__dir__, "*_test.rb")].sort.each { |path| require path }
