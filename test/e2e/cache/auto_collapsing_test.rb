# The automatic page cache in front of the page cache, which lets one request ask for all who want the same: none waits for one that was
# answered with a page that is kept.
require "json"
require_relative "../support/asking"
require_relative "../support/scenario"

class CacheAutoCollapsingTest < Minitest::Test
  include Scenario
  include Asking

  APP = <<~RUBY.freeze
    require "rack"
    run ->(env) { [200, { "content-type" => "text/plain" }, ["in " + Rack::Request.new(env).cookies["locale"].to_s]] }
  RUBY

  def test_after_a_hit_the_application_is_asked_when_a_visitor_wants_that
    @dir = app("config.ru" => APP, "paceline.toml" => "[auto_cache]\nmode = \"serve\"\nverify = \"0%\"\n")
    @server = serve(@dir, "-w", "1", env: { "XDG_STATE_HOME" => File.join(@dir, "state") })
    # With no-store the page cache does not learn that these pages can't be stored: until it knows, requests wait for each other.
    eventually("the page to be served") do
      50.times { |nth| @server.get("/page", "User-Agent" => "browser #{nth % 2}", "Cache-Control" => "no-store") }
      routes = command_json(@server, "cache", "advise", "--json")["sites"].values.flat_map { |site| site["routes"] }
      routes.any? { |route| route["stage"] == "serving" }
    end
    # A server that is late shows none for a moment.
    eventually("a hit") { @server.get("/page")["cache-status"].to_s.include?("detail=auto") }
    answer = @server.get("/page", "Cache-Control" => "no-cache")
    assert_equal ["200", "in "], [answer.code, answer.body]
    refute_match(/hit/, answer["cache-status"])
    assert_equal "in de", @server.get("/page", "Cookie" => "locale=de").body
  end
end
