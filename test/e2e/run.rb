# Runs the end-to-end scenarios in one process: `ruby test/e2e/run.rb [WHICH ...] [minitest's options]`.
# WHICH: names without `_test` (`hijack`), or `rack` for those that hold on every Ruby and Rack. Tests that need a real
# application served elsewhere (Redmine, the brewery), or an ACME server, are run by bin/test.
RACK = %w[bodies chunked_by_app input hijack websocket streaming headers queue sendfile serve faults restart handlers sessions].freeze
ELSEWHERE = %w[redmine brewery acme].freeze

# Whoever runs the tests in the background ignores these, and so would what is started here.
%w[INT QUIT HUP].each { |name| trap(name, "DEFAULT") }

all = Dir[File.join(__dir__, "*_test.rb")].to_h { |path| [File.basename(path, "_test.rb"), path] }
asked = ARGV.take_while { |word| !word.start_with?("-") }
names = asked.empty? ? all.keys - ELSEWHERE : asked.flat_map { |name| name == "rack" ? RACK & all.keys : [name] }
ARGV.shift(asked.size)
names.sort.each { |name| require all.fetch(name) { abort "no #{name}_test.rb in #{__dir__}" } }
