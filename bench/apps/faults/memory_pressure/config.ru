# Each worker keeps a table of its own in memory, 48 MB, and a search reads a part of it.
PIECES = 768
PIECE = 64 << 10
PAGE = 4096

table = nil
run(lambda do |env|
  headers = { "content-type" => "text/plain", "cache-control" => "private, no-store" }
  next [200, headers, ["searches\n"]] unless env["PATH_INFO"] == "/find"

  table ||= Array.new(PIECES) { |number| Random.new(number).bytes(PIECE) }
  24.times { piece = table[rand(PIECES)] and (0...PIECE).step(PAGE) { |place| piece.getbyte(place) } }
  [200, headers, ["found\n"]]
end)
