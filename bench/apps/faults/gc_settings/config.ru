# A report made of many strings, beside as many objects as an application of some size has.
require "digest"

PRICES = Array.new(60_000) { |number| [number] }

run(lambda do |env|
  headers = { "content-type" => "text/plain", "cache-control" => "private, no-store" }
  next [200, headers, ["reports\n"]] unless env["PATH_INFO"] == "/report"

  rows = Array.new(1_000) { |i| "#{PRICES[i].first}: " + ("row " * 300) + i.to_s.reverse }
  sums = rows.map { |row| Digest::SHA256.hexdigest(row) }
  [200, headers, [rows.map(&:upcase).sort.first(50).join("\n"), Digest::SHA256.hexdigest(sums.join), "\n"]]
end)
