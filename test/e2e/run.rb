# Runs the end-to-end scenarios: `ruby test/e2e/run.rb [--processes N] [WHICH ...] [minitest's options]`, in one process unless N is given; else each
# file in a process of its own, N at a time.
# WHICH: a file's name without `_test` (`hijack`), a folder (`cache/`), the path of either, or `rack` for the files that hold on every Ruby
# and Rack, or `measuring` and `others`: those that measure how fast something is, or give way to all other processes, should be alone. Tests that need a real application served elsewhere (Redmine, the brewery), or an ACME server, are run by bin/test.
RACK = %w[bodies chunked_by_app input hijack websocket streaming headers queue sendfile serve faults restart handlers sessions].freeze
ELSEWHERE = %w[redmine brewery acme].freeze
MEASURING = %w[compare scheduled scheduled_everywhere doctor doctor_database doctor_load doctor_settings advice_page bench].freeze
# Half a minute and more each: begun first.
LONG = %w[auto_serve auto_postgresql rolling_restart pressure auto_model auto http2_limits startup_errors split cgroup upgrade stopped faults memory handlers auto_console closed_everywhere failover mailbox].freeze

# Tests that run in the background ignore these, and so would what is started here.
%w[INT QUIT HUP].each { |name| trap(name, "DEFAULT") }

files = Dir[File.join(__dir__, "**/*_test.rb")].group_by { |path| File.basename(path, "_test.rb") }
files.each { |name, paths| abort "one name for several files, choose another: #{paths.join(", ")}" if paths.size > 1 || %w[rack measuring others].include?(name) }
files.transform_values!(&:first)

# The files of one WHICH. A folder's name is the name of its file if it has one (`limits`); with a slash (`limits/`) it is the folder.
find = lambda do |word|
  path = [File.expand_path(word), File.expand_path(word, __dir__)].find { |one| one.start_with?("#{__dir__}/") && File.exist?(one) }
  next [files[word]] if files.key?(word)
  next files.values_at(*RACK) if word == "rack"
  next files.values_at(*MEASURING) if word == "measuring"
  next files.except(*ELSEWHERE, *MEASURING).values if word == "others"
  next [path] if path && files.value?(path)
  inside = path ? files.except(*ELSEWHERE).values.select { |file| file.start_with?("#{path}/") } : []
  inside.empty? ? abort("no #{word}_test.rb and no folder #{word} in #{__dir__}") : inside
end

processes = Integer(ARGV.shift(2).last) if ARGV.first == "--processes"
names = ARGV.take_while { |word| !word.start_with?("-") }
ARGV.shift(names.size)
chosen = names.empty? ? files.except(*ELSEWHERE).values : names.flat_map(&find)
chosen = chosen.uniq.sort
if processes
  require_relative "../files_in_processes"
  long = files.values_at(*LONG) & chosen
  exit FilesInProcesses.new(processes, [RbConfig.ruby, __FILE__], ARGV).run(long + (chosen - long))
end
chosen.each { |path| require path }
