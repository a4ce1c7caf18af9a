# Parts of pages that scripts ask for by a header, of applications that say no Vary: no cache gives one in the page's place, nor the page in its.
require_relative "../support/scenario"

class CachePartsTest < Minitest::Test
  include Scenario

  APP = <<~RUBY.freeze
    FIELDS = %w[
      HTTP_TURBO_FRAME HTTP_HX_REQUEST HTTP_HX_TARGET HTTP_X_INERTIA HTTP_X_UP_TARGET HTTP_X_PJAX HTTP_X_REQUESTED_WITH HTTP_X_ALPINE_REQUEST HTTP_DATASTAR_REQUEST
    ].freeze
    run ->(env) {
      part = {}.merge(env).values_at(*FIELDS).compact
      part << "stream" if {}.merge(env)["HTTP_ACCEPT"].to_s.include?("turbo-stream")
      body = part.empty? ? "<!doctype html>" : "part " + part.join(" ")
      control = env["PATH_INFO"].start_with?("/public") ? "public, max-age=60" : "private"
      [200, { "content-type" => "text/html", "cache-control" => control }, [body]]
    }
  RUBY
  PARTS = [
    { "Turbo-Frame" => "list" }, { "Turbo-Frame" => "cart" }, { "HX-Request" => "true" }, { "HX-Request" => "true", "HX-Target" => "list" }, { "X-Inertia" => "true" },
    { "X-Up-Target" => ".list" }, { "X-PJAX" => "true" }, { "X-Requested-With" => "XMLHttpRequest" }, { "X-Alpine-Request" => "true" }, { "Datastar-Request" => "true" },
    { "Accept" => "text/vnd.turbo-stream.html, text/html" }
  ].freeze

  # In the page cache by RFC 9111, by a rule, and by the automatic page cache.
  def test_a_part_is_never_given_for_the_page
    @dir = app("config.ru" => APP, "paceline.toml" => "[auto_cache]\nmode = \"serve\"\n[[cache]]\npath = \"/ruled/*\"\nttl = \"60s\"\nignore_cookies = []\n")
    @server = serve(@dir, "-w", "1", env: { "XDG_STATE_HOME" => File.join(@dir, "state") })
    %w[/public /ruled /learned].each do |kind|
      Net::HTTP.start("127.0.0.1", @server.port, read_timeout: PATIENCE) do |http|
        asks = ->(number, fields) { http.get("#{kind}/#{number}", { "Accept" => "text/html, */*" }.merge(fields)) }
        320.times { |nth| asks.call("first", "User-Agent" => "browser #{nth % 2}") } if kind == "/learned"
        ["first", *0..4].each do |number|
          all = [{}, *PARTS].rotate(number.is_a?(Integer) ? number * 3 : 0)
          said = ->(fields) { fields.empty? ? "<!doctype html>" : "part " + (fields.key?("Accept") ? "stream" : fields.values.join(" ")) }
          2.times { all.each { |fields| assert_equal said.call(fields), asks.call(number, fields).body, "#{kind} #{fields}" } }
        end
        assert_match(/hit/, asks.call("first", "Turbo-Frame" => "list")["cache-status"], kind) unless kind == "/learned"
      end
    end
  end
end
