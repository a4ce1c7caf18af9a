# A page that computes.
run(lambda do |env|
  headers = { "content-type" => "text/plain", "cache-control" => "private, no-store" }
  [200, headers, [env["PATH_INFO"] == "/sums" ? "#{(1..300_000).sum { |i| i % 7 }}\n" : "sums\n"]]
end)
