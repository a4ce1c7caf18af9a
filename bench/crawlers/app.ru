# frozen_string_literal: true

# Pages that take COST milliseconds of a processor and then WAIT milliseconds for something else, as for a database.
COST = Float(ENV.fetch("COST", "20")) / 1000
WAIT = Float(ENV.fetch("WAIT", "10")) / 1000

run(lambda do |env|
  limit = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + COST
  "x" * 100 while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < limit
  sleep WAIT
  [200, { "content-type" => "text/html" }, ["page #{env["PATH_INFO"]}\n".ljust(8_000)]]
end)
