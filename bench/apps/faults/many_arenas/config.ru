# A list made of many strings of different lengths, a few of which are kept: what becomes free between them stays with the thread's arena. Each worker has a
# catalogue of its own, which it makes when it is first asked.
require "digest"

KEPT = Array.new(4_000)
LOCK = Mutex.new
CATALOGUE = +""

def catalogue
  LOCK.synchronize { CATALOGUE.empty? ? CATALOGUE << ("beer and wine " * 2_400_000) : CATALOGUE }
end

def keep(page, rows)
  LOCK.synchronize { 20.times { |i| KEPT[((page * 20) + i) % KEPT.size] = rows[i * 7].byteslice(0, 300 + (i * 97 % 900)) } }
end

pages, turn = 0, Mutex.new

run(lambda do |env|
  headers = { "content-type" => "text/plain", "cache-control" => "private, no-store" }
  next [200, headers, ["lists\n"]] unless env["PATH_INFO"] == "/list"

  rows = Array.new(400) { |i| "row #{i} " * (20 + (i * 37 % 300)) }
  keep(turn.synchronize { pages += 1 }, rows)
  sum, text = Digest::SHA256.new, rows.join("\n")
  4.times { sum << text }
  4.times { sum << text }
  4.times { sum << text }
  [200, headers, [sum.hexdigest, " of #{catalogue.bytesize} bytes\n"]]
end)
