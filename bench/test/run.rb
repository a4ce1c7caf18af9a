# frozen_string_literal: true

# Runs the tests of the benchmark's arithmetic: `ruby bench/test/run.rb`. They start no server and measure nothing.
require "minitest/autorun"
Dir[File.join(__dir__, "*_test.rb")].sort.each { |path| require path }
