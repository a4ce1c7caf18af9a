# One page is kept for clients of all content codings, whichever the app has chosen for the first of them.
require "zlib"
require_relative "../support/scenario"

class CacheCodingsTest < Minitest::Test
  include Scenario

  TEXT = ("All work and no play makes Jack a dull boy. " * 100).freeze
  # As Rack::Deflater does it; counts its calls.
  APP = <<~RUBY.freeze
    require "zlib"
    TEXT = "All work and no play makes Jack a dull boy. " * 100
    calls = 0
    run ->(env) {
      calls += 1
      head = { "content-type" => "text/plain", "vary" => "Accept-Encoding", "etag" => '"v1"', "x-calls" => calls.to_s,
               "cache-control" => env["PATH_INFO"] == "/stiff" ? "max-age=60, no-transform" : "max-age=60" }
      return [200, head, [TEXT]] unless env["HTTP_ACCEPT_ENCODING"].to_s.include?("gzip")
      [200, head.merge("content-encoding" => "gzip"), [Zlib.gzip(TEXT)]]
    }
  RUBY

  def ask(path, coding = nil, more = {})
    Net::HTTP.start("127.0.0.1", @server.port) do |http|
      http.request(Net::HTTP::Get.new(path, { "Accept-Encoding" => coding || "identity", **more }))
    end
  end

  def decoded(answer) = answer["content-encoding"] == "gzip" ? Zlib.gunzip(answer.body) : answer.body

  def test_who_takes_no_gzip_gets_what_was_zipped_for_another
    @server = serve(app("config.ru" => APP))
    first = ask("/", "gzip")
    assert_equal ["gzip", '"v1"', TEXT], [first["content-encoding"], first["etag"], decoded(first)]
    plain = ask("/")
    assert_equal [nil, TEXT, "1", 'W/"v1"'], [plain["content-encoding"], plain.body, plain["x-calls"], plain["etag"]]
    assert_match(/paceline; hit/, plain["cache-status"])
    assert_includes plain["vary"], "Accept-Encoding"
    zipped = ask("/", "gzip")
    assert_equal ["gzip", TEXT, "1"], [zipped["content-encoding"], decoded(zipped), zipped["x-calls"]]
    assert_equal "zstd", ask("/", "zstd")["content-encoding"]
    # Whoever has the app's own tag, or the weak one, has the page.
    ['"v1"', 'W/"v1"'].each { |tag| assert_equal "304", ask("/", "gzip", "If-None-Match" => tag).code }
  end

  def test_what_came_plain_is_compressed_once
    @server = serve(app("config.ru" => APP))
    ask("/plain")
    2.times do
      zipped = ask("/plain", "gzip")
      assert_equal ["gzip", TEXT, "1"], [zipped["content-encoding"], decoded(zipped), zipped["x-calls"]]
    end
  end

  def test_no_transform_is_obeyed
    @server = serve(app("config.ru" => APP))
    ask("/stiff", "gzip")
    plain = ask("/stiff")
    assert_equal [nil, "2"], [plain["content-encoding"], plain["x-calls"]]
    assert_match(/fwd=vary-miss/, plain["cache-status"])
    assert_equal "1", ask("/stiff", "gzip")["x-calls"]
  end

  def test_without_compression_each_coding_is_kept_for_itself
    @server = serve(app("config.ru" => APP), "--compress=false")
    ask("/", "gzip")
    assert_equal "2", ask("/")["x-calls"]
    assert_equal "1", ask("/", "gzip")["x-calls"]
  end
end
