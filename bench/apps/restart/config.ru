# frozen_string_literal: true

# What `bin/bench restart` deploys again and again: takes a while to load, as applications do, and answers with its version.
#
#   RESTART_BOOT_MS   processor time that loading takes (1500)
#   RESTART_WORK_MS   what a request takes (5), two fifths of it processor time, the rest waiting
#
# The files `version` and `mode` beside it are read as it is loaded. Modes: ok; raise (does not load); slow (five seconds more);
# broken (answers 500).
here = __dir__
version = File.read(File.join(here, "version")).strip
mode = File.exist?(File.join(here, "mode")) ? File.read(File.join(here, "mode")).strip : "ok"
work = Integer(ENV.fetch("RESTART_WORK_MS", "5")) / 1000.0

used = -> { Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) }
spin = lambda do |clock, until_then|
  number = 1
  number = ((number * 1_103_515_245) + 12_345) & 0xffff while clock.call < until_then
end

# Code and data that stay, as those of an application do: some 30 MB.
KEPT = Array.new(300_000) { |number| "object #{number}" }
spin.call(used, used.call + (Integer(ENV.fetch("RESTART_BOOT_MS", "1500")) / 1000.0))
sleep 5 if mode == "slow"
raise "this version does not load" if mode == "raise"

body = "v#{version}\n"
thread = -> { Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) }
run lambda { |_env|
  spin.call(thread, thread.call + (work * 0.4))
  sleep work * 0.6
  mode == "broken" ? [500, { "content-type" => "text/plain" }, ["broken\n"]] : [200, { "content-type" => "text/plain", "content-length" => body.bytesize.to_s }, [body]]
}
