# The automatic page cache in front of a Rails application whose pages compare the clock with stored times: a page is a hit until the moment at which
# it changes, and never after it.
require "json"
require_relative "../support/asking"
require_relative "../support/rails_shop"
require_relative "../support/scenario"

class CacheAutoClockTest < Minitest::Test
  include Scenario
  include Asking
  include RailsShop

  SETTINGS = [
    'config.time_zone = "Berlin"',
    "config.cache_classes = true"
  ].freeze
  APP = RailsShop.config_ru(<<~RUBY, railties: %w[active_record action_controller action_view], config: SETTINGS).freeze
    require "./ages"
    ActiveRecord::Schema.verbose = false
    class Sale < ActiveRecord::Base
      def open? = starts_at.past? && ends_at > Time.current
      def seen_lately? = seen_at > 2.seconds.ago
    end
    unless Sale.table_exists?
      ActiveRecord::Schema.define do
        create_table(:sales) { |t| %i[starts_at ends_at seen_at].each { |name| t.datetime name, precision: 6 } }
      end
      1.upto(2) { |id| Sale.create!(id: id, starts_at: 1.hour.from_now, ends_at: 2.hours.from_now, seen_at: Time.current) }
    end
    class SalesController < ActionController::Base
      skip_forgery_protection
      def show = render(inline: "<%= @sale.open? ? 'open' : 'closed' %> in <%= Time.current.year %>", locals: { sale: @sale = Sale.find(params[:id]) })
      def seen = render(plain: Sale.find(params[:id]).seen_lately? ? "lately" : "long ago")
      def listed = render(plain: Sale.all.select(&:open?).map(&:id).join(","))
      def today = render(plain: "\#{Date.current} \#{Sale.where(starts_at: Date.today.beginning_of_day..).count}")
      def bound = render(plain: Sale.where("starts_at <= ?", Time.current).pluck(:id).join(","))
      def range = render(plain: Sale.where(starts_at: ..Time.current).pluck(:id).join(","))
      def aged = render(plain: Ages.of(Sale.find(params[:id])))
      def rounded = render(plain: Ages.rounded(Sale.find(params[:id])))
      def words = render(inline: "<%= time_ago_in_words(Sale.find(params[:id]).seen_at) %>")
      def odd = render(plain: Sale.where("julianday(starts_at) <= julianday(?)", Time.current).count.to_s)
      def elapsed = render(plain: (Time.now - Sale.find(1).seen_at).positive?.to_s)
      def written = render(plain: Time.now.to_s)
      def write
        values = params.permit(:starts_at, :ends_at, :seen_at).to_h.transform_values { |time| Time.at(time.to_r) }
        Sale.find(params[:id]).update!(values)
        render(plain: "written")
      end
    end
    Rails.application.routes.draw do
      get "/sales/:id", to: "sales#show"
      post "/sales/:id", to: "sales#write"
      get "/seen/:id", to: "sales#seen"
      %w[words aged rounded].each { |name| get "/\#{name}/:id", to: "sales#\#{name}" }
      %w[listed today bound range odd elapsed written].each { |name| get "/\#{name}", to: "sales#\#{name}" }
    end
  RUBY

  # Of numbers, a file of its own: what config.ru says is evaluated.
  AGES = <<~RUBY.freeze
    module Ages
      def self.age(sale) = Time.now - sale.seen_at
      def self.of(sale) = age(sale) > 2 && sale.seen_at.to_i < 2.seconds.ago.to_i + 1 ? "long ago" : "lately"
      def self.rounded(sale) = Time.current.change(usec: 0) >= sale.starts_at ? "open" : "closed"
    end
  RUBY

  SERVE = "[auto_cache]\nmode = \"serve\"\nverify = \"0%\"\n".freeze
  HIT = /\Apaceline; hit; ttl=(\d+); detail=auto\z/
  # Seconds until a page changes: hits come before.
  AHEAD = 2

  def setup
    super
    skip_without_rails
    skip "SQLite is not here" if Gem::Specification.find_all_by_name("sqlite3").empty?
    database = "production:\n  adapter: sqlite3\n  database: shop.sqlite3\n  pool: 5\n  timeout: 10000\n"
    @dir = app("config.ru" => APP, "ages.rb" => AGES, "config/database.yml" => database, "paceline.toml" => SERVE)
    @server = serve(@dir, "-w", "2", "-t", "1", env: { "XDG_STATE_HOME" => File.join(@dir, "state") })
  end

  def routes
    sites = command_json(@server, "cache", "advise", "--json")["sites"]
    sites.values.flat_map { |site| site["routes"] }.to_h { |one| [one["route"], one] }
  end

  # Asks for a page until the route is served: 300 comparisons, of two browsers.
  def prove(label, path)
    Net::HTTP.start("127.0.0.1", @server.port, read_timeout: PATIENCE) do |http|
      eventually("#{label} to be served") do
        20.times { |nth| http.get(path, "User-Agent" => "browser #{nth % 2}") }
        routes[label]&.fetch("stage") == "serving"
      end
    end
  end

  def change(id, times)
    request = Net::HTTP::Post.new("/sales/#{id}")
    request.set_form_data(times.transform_values { |time| time.to_r.to_s })
    assert_equal "written", @server.request(request).body
  end

  # Asks without a pause until some time after this moment: what each answer says, when it was asked for, when it came, and its ttl if it is a hit.
  def follow(path, moment)
    answers = []
    Net::HTTP.start("127.0.0.1", @server.port, read_timeout: PATIENCE) do |http|
      until answers.any? && answers.last[:asked] > moment + 0.5
        asked = Time.now
        answer = http.get(path)
        assert_equal "200", answer.code, answer.body
        answers << { asked: asked, came: Time.now, body: answer.body, ttl: answer["cache-status"].to_s[HIT, 1]&.to_i }
      end
    end
    answers
  end

  # The page says one thing before the moment and another after it, with hits of both.
  def assert_change(path, moment, before, after)
    answers = follow(path, moment)
    assert_equal [], answers.select { |one| one[:asked] >= moment && one[:body] != after }.first(3), "a page that is too old"
    assert_equal [], answers.select { |one| one[:came] < moment && one[:body] != before }.first(3)
    hits = answers.select { |one| one[:ttl] }
    assert_operator hits.count { |one| one[:body] == before }, :>, 20
    assert_operator hits.count { |one| one[:body] == after }, :>, 20
    early = hits.select { |one| one[:body] == before }
    assert(early.all? { |one| one[:ttl] <= (moment - one[:asked]).ceil }, "a hit says how long it is good for")
  end

  def test_a_page_changes_at_its_moment_and_is_a_hit_before_and_after_it
    prove("GET /sales/*", "/sales/1")
    prove("GET /seen/*", "/seen/1")
    prove("GET /listed", "/listed")
    prove("GET /words/*", "/words/1")
    prove("GET /bound", "/bound")
    prove("GET /range", "/range")
    prove("GET /aged/*", "/aged/1")
    prove("GET /rounded/*", "/rounded/1")
    year = " in #{Time.now.year}"
    # To the millisecond, and between two.
    [0, Rational(1, 2000)].each do |part|
      moment = Time.at((Time.now + AHEAD).to_i) + part
      change(1, starts_at: moment, ends_at: moment + 3600)
      assert_change("/sales/1", moment, "closed#{year}", "open#{year}")
    end
    moment = Time.at((Time.now + AHEAD).to_i)
    change(1, starts_at: Time.at(0), ends_at: moment)
    assert_change("/listed", moment, "1", "")
    moment = Time.at((Time.now + AHEAD).to_i) + Rational(1, 2000)
    change(1, starts_at: moment, ends_at: moment + 3600)
    assert_change("/bound", moment, "", "1")
    moment = Time.at((Time.now + AHEAD).to_i) + Rational(1, 2)
    change(1, starts_at: moment, ends_at: moment + 3600)
    assert_change("/range", moment, "", "1")
    moment = Time.at((Time.now + AHEAD).to_i)
    change(1, starts_at: moment, ends_at: moment + 3600)
    assert_change("/rounded/1", moment, "closed", "open")
    seen = Time.at(Time.now.to_i)
    change(1, seen_at: seen)
    assert_change("/seen/1", seen + 2, "lately", "long ago")
    seen = Time.at(Time.now.to_i) + Rational(1, 4)
    change(1, seen_at: seen)
    assert_change("/aged/1", seen + 2, "lately", "long ago")
    moment = Time.at((Time.now + AHEAD).to_i)
    change(1, seen_at: moment - 150)
    assert_change("/words/1", moment, "2 minutes", "3 minutes")
    labels = ["GET /sales/*", "GET /seen/*", "GET /listed", "GET /words/*", "GET /bound", "GET /range", "GET /aged/*", "GET /rounded/*"]
    assert_equal %w[serving] * labels.size, routes.values_at(*labels).map { |route| route["stage"] }

    # A write before the moment drops it as it drops any page.
    change(1, starts_at: Time.now + 3600, ends_at: Time.now + 7200)
    assert_equal "closed#{year}", @server.get("/sales/1").body
    change(1, starts_at: Time.at(0))
    assert_equal "open#{year}", @server.get("/sales/1").body
    page, = command(@server, "cache", "why", "http://127.0.0.1:#{@server.port}/sales/1")
    assert_match(/^would be a hit since \S+, until \S+ by the clock$/, page)
    assert_match(/^  reads the clock   config\.ru:\d+$/, page)
  end

  def test_a_page_of_a_day_and_pages_that_tell_the_time
    prove("GET /today", "/today")
    %w[/odd /elapsed /written].each { |path| 3.times { @server.get(path) } }
    found = routes
    %w[odd elapsed written].each do |name|
      refusals = found["GET /#{name}"]["refusals"]
      assert_equal [["reads Time.now"], 3], [refusals.map { |one| one["why"] }, found["GET /#{name}"]["refused"]], name
    end
    text, = command(@server, "cache", "advise")
    assert_match(/^of [\d,]+ GETs \d+ % could be hits; without config\.ru:\d+ \(3 GETs\) up to \d+ %/, text)
  end
end
