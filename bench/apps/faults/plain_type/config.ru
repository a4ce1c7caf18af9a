# A price list, as a table for other programs.
require_relative "type"

PRICES = Array.new(800) { |number| "book #{number};#{number * 37 % 90}.#{number * 7 % 90 + 10};EUR\n" }.join.freeze

run(lambda do |env|
  headers = { "cache-control" => "private, no-store" }
  next [200, headers.merge("content-type" => "text/plain"), ["prices\n"]] unless env["PATH_INFO"] == "/prices"

  [200, headers.merge("content-type" => TYPE), [PRICES]]
end)
