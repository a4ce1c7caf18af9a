# frozen_string_literal: true

# A sale of 214 pages that begins at SALE (Unix seconds): each takes about COST milliseconds of processor time to render, and says until when it is
# valid, as a plugin of WordPress would: max-age ends at the sale.
SALE = Float(ENV.fetch("SALE"))
COST = Float(ENV.fetch("COST", "20")) / 1000

run(lambda do |env|
  now = Time.now.to_f
  limit = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + COST
  "x" * 100 while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < limit
  age = now < SALE ? (SALE - now).ceil : 3600
  [200, { "content-type" => "text/html", "cache-control" => "public, max-age=#{age}" }, ["#{now < SALE ? "before" : "after"} #{env["PATH_INFO"]}\n".ljust(8_000)]]
end)
