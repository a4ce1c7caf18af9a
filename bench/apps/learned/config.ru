# frozen_string_literal: true

# One page of 1 KB: with a header that lets it be kept, without one, and made with a cookie.
require "rack"

PAGE = Random.new(5).bytes(512).unpack1("H*").freeze
HEAD = { "content-type" => "text/plain", "content-length" => PAGE.bytesize.to_s }.freeze

run lambda { |env|
  case env["PATH_INFO"]
  when "/kept" then [200, HEAD.merge("cache-control" => "max-age=86400"), [PAGE]]
  when "/learned" then [200, HEAD.dup, [PAGE]]
  when "/locale"
    Rack::Request.new(env).cookies["locale"]
    [200, HEAD.dup, [PAGE]]
  else [404, { "content-type" => "text/plain" }, ["not here\n"]]
  end
}
