# A report made of many strings.
run(lambda do |env|
  headers = { "content-type" => "text/plain", "cache-control" => "private, no-store" }
  next [200, headers, ["reports\n"]] unless env["PATH_INFO"] == "/report"

  rows = Array.new(1_000) { |i| "#{i}: " + ("row " * 300) + i.to_s.reverse }
  [200, headers, [rows.map(&:upcase).sort.first(50).join("\n")]]
end)
