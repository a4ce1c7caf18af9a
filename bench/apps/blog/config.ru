# frozen_string_literal: true

# A blog whose pages are files in public/, which the application has written. A server that does not serve them itself leaves that to Rack::Static.
require "rack"

use Rack::Static, urls: ["/posts/"], root: "public"

run ->(_env) { [200, { "content-type" => "text/plain", "content-length" => "5" }, ["blog\n"]] }
