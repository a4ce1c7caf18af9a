# frozen_string_literal: true

# Runs the gem's tests: ruby -Igem/lib -Igem/test gem/test/run.rb [--processes N] [WHICH ...] [minitest's options]
#
# In one process unless N is given: then each file in one of its own, N at a time.
# WHICH: a file, a folder or a pattern here, such as `server/tuning_test.rb`, `xml` or `"server/*_test.rb"`; all of them if none is named.
# With PACELINE_NATIVE=0 without those of what has nothing native of its own.

# Tests that run in the background ignore these, and so would what is started here.
%w[INT QUIT HUP].each { |name| trap(name, "DEFAULT") }

files = Dir[File.join(__dir__, "**", "*_test.rb")]
files.reject! { |file| file.match?(%r{/gem/test/(?:server/shadow|auto_cache|compare|context|http)/}) } if ENV["PACELINE_NATIVE"] == "0"
files.sort!
processes = Integer(ARGV.shift(2).last) if ARGV.first == "--processes"
names = ARGV.take_while { |word| !word.start_with?("-") }
ARGV.shift(names.size)
unless names.empty?
  chosen = names.to_h { |name| [name, Dir[File.join(__dir__, name), File.join(__dir__, name, "**", "*_test.rb")]] }
  chosen.each { |name, found| abort "no test #{name} in #{__dir__}" if (found & files).empty? }
  files &= chosen.values.flatten
end
if processes
  require_relative "../../test/files_in_processes"
  here = File.expand_path("..", __dir__)
  # Shadows give way to all other processes: not two of them at a time, and first, so that the others fill the time in which they wait.
  of_shadows = ->(file) { file.include?("/server/shadow/") }
  command = [RbConfig.ruby, "-I#{here}/lib", "-I#{here}/test"]
  exit FilesInProcesses.new(processes, command, ARGV, &of_shadows).run(files.partition(&of_shadows).flatten)
end
files.each { |file| require file }
