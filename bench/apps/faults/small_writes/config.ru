# A price list that is written line by line.
require_relative "body"

LINES = Array.new(1_300) { |i| format("%06d  Volume %05d  %8.2f EUR  in stock\n", i, i * 7, i * 0.35) }.freeze

run(lambda do |env|
  headers = { "content-type" => "text/plain", "cache-control" => "private, no-store" }
  env["PATH_INFO"] == "/prices.txt" ? [200, headers, body(LINES)] : [200, headers, ["prices\n"]]
end)
