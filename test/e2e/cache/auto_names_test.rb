# The automatic page cache and random texts: forms that Rails names by chance get a new name for each visitor, and pages that do more with chance are never shown.
require "json"
require_relative "../support/asking"
require_relative "../support/rails_shop"
require_relative "../support/scenario"

class CacheAutoNamesTest < Minitest::Test
  include Scenario
  include Asking
  include RailsShop

  SERVE = "[auto_cache]\nmode = \"serve\"\nverify = \"0%\"\n".freeze
  HIT = /\Apaceline; hit; ttl=\d+; detail=auto\z/

  RAILS = RailsShop.config_ru(<<~'RUBY', railties: %w[action_controller action_view], config: ["config.cache_store = :memory_store"]).freeze
    require "digest"
    TICKETS = {}
    class ShopController < ActionController::Base
      def show(template) = render(inline: template, locals: { name: SecureRandom.hex(4), ticket: SecureRandom.uuid })

      NAMED = %q(<form id="a-<%= ticket %>" name="form-<%= name %>"><label for="l-<%= name %>"></label><i id="l-<%= name %>"></i></form>)
      def named = show(NAMED)
      def both
        headers["Cache-Control"] = "public"
        show("<p>#{params[:id]}</p>" + NAMED)
      end
      # What comes back.
      def hidden = show(NAMED + %q(<input type="hidden" name="ticket" value="<%= TICKETS[ticket] = ticket %>">))
      def script = show(NAMED + %q(<script>start("<%= ticket %>")</script>))
      def link = show(NAMED + %q(<a href="/take?ticket=<%= ticket %>">take</a>))
      def header = show(NAMED + %q(<% response.headers["X-Ticket"] = ticket %>))
      def session_key = show(NAMED + %q(<% session[:ticket] = ticket %>))
      def cookie = show(NAMED + %q(<% cookies[:ticket] = ticket %>))
      def cached = show(NAMED + %q(<% Rails.cache.write("tickets/#{ticket}", 1) %>))
      def kept = show(NAMED + %q(<%= Rails.cache.fetch("kept") { ticket } %>))
      def file = show(NAMED + %q(<% File.write(File.join(__dir__, "ticket"), ticket) %>))
      # Another form of it.
      def digest = show(NAMED + %q(<i title="<%= Digest::SHA256.hexdigest(ticket) %>">))
      def upper = show(NAMED + %q(<i title="<%= ticket.upcase %>">))
      def unused = show("<p>")
      def short = render(inline: %q(<form name="f-<%= SecureRandom.hex(2) %>">))
      def number = render(inline: %q(<form name="f-<%= SecureRandom.random_number(10**8) + 10**8 %>">))
      def json = render(json: { id: SecureRandom.uuid })
      # Of one URL alone.
      def odd = show(params[:id] == "13" ? NAMED + %q(<i title="<%= ticket.upcase %>">) : NAMED)
    end
    Rails.application.routes.draw do
      (ShopController.instance_methods(false) - %i[show]).each { |name| get "/#{name}(/:id)", to: "shop##{name}" }
    end
  RUBY

  REFUSED = {
    "hidden" => "is more than the name of an element", "script" => "is more than the name of an element", "link" => "is more than the name of an element",
    "header" => "is in the head", "session_key" => "writes the session", "cookie" => "sets the cookie ticket", "cached" => "keeps an entry of Rails.cache",
    "kept" => "keeps an entry of Rails.cache", "file" => "write of", "unused" => "is not in the page as it was made", "short" => "reads SecureRandom.hex",
    "number" => "reads SecureRandom.random_number", "json" => "is in a page that is not HTML"
  }.freeze

  def setup
    super
    skip_without_rails
    @dir = app("config.ru" => RAILS, "paceline.toml" => SERVE)
    @server = serve(@dir, "-w", "2", "-t", "1", env: { "XDG_STATE_HOME" => File.join(@dir, "state") })
  end

  def routes
    sites = command_json(@server, "cache", "advise", "--json")["sites"]
    sites.values.flat_map { |site| site["routes"] }.to_h { |route| [route["route"], route] }
  end

  def hit?(answer) = HIT.match?(answer["cache-status"].to_s)

  def ask(http, path, nth)
    answer = http.get(path, { "User-Agent" => "browser #{nth % 2}" })
    assert_equal "200", answer.code, answer.body
    answer
  end

  def prove(label, path)
    Net::HTTP.start("127.0.0.1", @server.port, read_timeout: PATIENCE) do |http|
      eventually("#{label} to be served") do
        20.times { |nth| ask(http, path, nth) }
        routes[label]&.fetch("stage") == "serving"
      end
    end
  end

  def hit_of(path, headers = {})
    eventually("a hit of #{path}") do
      answer = @server.get(path, headers)
      answer if hit?(answer)
    end
  end

  NAMES = /\A<form id="a-(\h{8}-\h{4}-4\h{3}-[89ab]\h{3}-\h{12})" name="form-([0-9a-f]{8})"><label for="l-\2"><\/label><i id="l-\2"><\/i><\/form>\z/

  def test_each_visitor_gets_names_of_his_own
    prove("GET /named", "/named")
    shown = Array.new(200) { hit_of("/named") }
    names = shown.map { |answer| answer.body.match(NAMES)&.captures || flunk(answer.body) }
    assert_equal 200, names.map(&:first).uniq.size
    assert_operator names.map(&:last).uniq.size, :>=, 199
    shown.each { |answer| assert_nil answer["etag"] }
    squeezed = hit_of("/named", "Accept-Encoding" => "gzip")
    assert_match NAMES, squeezed["content-encoding"] ? Zlib.gunzip(squeezed.body) : squeezed.body
    assert_equal 4, routes.dig("GET /named", "texts")
    assert_match(/4 holes: 4 random names/, command(@server, "cache", "advise").first)
    prove("GET /both/*", "/both/1")
    assert_match(/public/, hit_of("/both/1")["cache-control"], "it is nobody's own")
  end

  def test_what_is_more_than_a_name_is_never_shown
    Net::HTTP.start("127.0.0.1", @server.port, read_timeout: PATIENCE) do |http|
      REFUSED.each_key { |name| 8.times { |nth| refute hit?(ask(http, "/#{name}", nth)), name } }
      %w[digest upper].each { |name| 8.times { |nth| ask(http, "/#{name}", nth) } }
      seen = eventually("all answers to be looked at") { routes.then { |all| all if all["GET /upper"]["requests"] == 8 } }
      REFUSED.each do |name, why|
        route = seen.fetch("GET /#{name}")
        # An entry of Rails.cache that is there is a page like any other.
        assert_operator route["refused"], name == "kept" ? :>= : :==, name == "kept" ? 1 : 8, name
        assert_includes route["refusals"].map { |one| one["why"] }.join("; "), why, name
      end
      %w[digest upper].each { |name| assert_equal "off", seen.dig("GET /#{name}", "stage"), name }
    end
  end

  # The route has proved to be right with other URLs.
  def test_a_page_whose_own_answers_differ_is_not_shown
    prove("GET /odd/*", "/odd/1")
    assert_match NAMES, hit_of("/odd/1").body
    refute hit?(@server.get("/odd/13"))
    refute hit?(@server.get("/odd/13"))
    eventually("the route to be off") { routes.dig("GET /odd/*", "stage") == "off" }
  end
end
