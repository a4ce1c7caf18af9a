# A page that computes, and not in one line.
def sums
  [
    (1..75_000).sum { |i| i % 7 },
    (1..75_000).sum { |i| i % 11 },
    (1..75_000).sum { |i| i % 13 },
    (1..75_000).sum { |i| i % 17 }
  ].sum
end

run(lambda do |env|
  headers = { "content-type" => "text/plain", "cache-control" => "private, no-store" }
  [200, headers, [env["PATH_INFO"] == "/sums" ? "#{sums}\n" : "sums\n"]]
end)
