# A page with a style sheet and a script.
require_relative "page"

run ->(_) { [200, { "content-type" => "text/html", "cache-control" => "private, no-store" }, [PAGE]] }
