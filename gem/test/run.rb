# frozen_string_literal: true

# Runs every test of the gem: ruby -Igem/lib -Igem/test gem/test/run.rb [--processes N] [minitest's options]
#
# In one process unless N is given: then each file in one of its own, N at a time.
# With PACELINE_NATIVE=0 without those of what has nothing native of its own.

# Tests that run in the background ignore these, and so would what is started here.
%w[INT QUIT HUP].each { |name| trap(name, "DEFAULT") }

files = Dir[File.join(__dir__, "**", "*_test.rb")]
files.reject! { |file| file.match?(%r{/gem/test/(?:server/shadow|auto_cache|compare|context|http|tour)/}) } if ENV["PACELINE_NATIVE"] == "0"
files.sort!
if ARGV.first == "--processes"
  require_relative "../../test/files_in_processes"
  processes = Integer(ARGV.shift(2).last)
  here = File.expand_path("..", __dir__)
  # Shadows give way to all other processes: they need a processor that is idle.
  shadows, others = files.partition { |file| file.include?("/server/shadow/") }
  command = [RbConfig.ruby, "-I#{here}/lib", "-I#{here}/test"]
  passed = [[processes, others], [1, shadows]].map { |number, some| some.empty? || FilesInProcesses.new(number, command, ARGV).run(some) }
  exit passed.all?
end
files.each { |file| require file }
