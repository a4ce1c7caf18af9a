# frozen_string_literal: true

# Pages, and event streams that say something every five seconds.
EVENTS = { "content-type" => "text/event-stream", "cache-control" => "no-store" }.freeze
PAGE = { "content-type" => "text/html", "cache-control" => "no-store" }.freeze

# What a page computes, and what it waits for (a database).
def page
  rows = Array.new(200) { |row| "<tr><td>#{row}</td><td>#{(row * 7919) % 104_729}</td></tr>" }
  sleep 0.005
  rows.join
end

run(lambda do |env|
  next [200, PAGE.dup, [page]] unless env["PATH_INFO"] == "/events"

  [200, EVENTS.dup, Enumerator.new { |out| loop { out << "data: #{Time.now.to_f}\n\n"; sleep 5 } }]
end)
