# frozen_string_literal: true

require_relative "support/shop_case"

# What is seen of the requests of a small Rails application: one fault, one place.
class ShadowEvidenceTest < ShopCase
  PAGES = %w[index style?style=style+1 joined twice feed prices order guide mail visit data pieces cached].freeze

  def self.all
    @all ||= run_in_shop("#{PAGES.inspect}.to_h { |page| [page, [get(\"/\#{page}\"), evidence(\"/\#{page}\")]] }")
  end

  def evidence(page)
    self.class.all.fetch(page).last
  end

  def line_of(text)
    File.readlines(File.join(SUPPORT, "shop_app.rb")).index { |line| line.include?(text) } + 1
  end

  def test_all_members_are_there
    assert_equal %w[sql views outbound xml xml_mini pstore log mail session middleware gc json cache records raised framework response], evidence("index").keys
    assert_equal "rails", evidence("index")["framework"]
    assert_equal [[], nil, nil, nil, nil, nil, nil], evidence("pieces").values_at("sql", "xml", "xml_mini", "pstore", "mail", "session", "json")
  end

  def test_observing_changes_no_answer
    (PAGES - %w[guide]).each { |page| assert_equal self.class.all[page].first, evidence(page)["response"], page }
  end

  def test_repeated_queries
    sql = evidence("index")["sql"].find { |one| one["shape"].include?("breweries") }
    assert_equal 'SELECT "breweries".* FROM "breweries" WHERE "breweries"."id" = ? LIMIT ?', sql["shape"]
    assert_equal ["Brewery Load", 20, 5, 20, 15], sql.values_at("name", "count", "distinct", "rows", "cached")
    assert_equal ["app/views/beers/_row.html.erb:2", nil, %w[Beer brewery]], sql.values_at("at", "scan", "association")
    assert_nil(evidence("index")["sql"].find { |one| one["shape"].start_with?('SELECT "beers"') }["association"])
    assert_operator sql["us"], :>, 0
  end

  def test_table_without_an_index
    sql = evidence("style?style=style+1")["sql"].first
    assert_equal({ "table" => "beers", "columns" => ["style"] }, sql["scan"])
    assert_equal [1, 4, "app/shop.rb:#{line_of("style: params[:style]")}"], sql.values_at("count", "rows", "at")
    assert_equal({ "table" => "notes", "columns" => ["text"] }, evidence("joined")["sql"].first["scan"])
    assert_equal [nil, nil], evidence("twice")["sql"].map { |one| one["scan"] }
  end

  # Nothing of them is read, but their number.
  def test_records_that_are_loaded
    records = in_shop("evidence(\"/counted\")[:records]").first
    assert_equal ["Beer", "app/shop.rb:#{line_of("Beer.all.to_a.size")}", 200, [], %w[id name style brewery_id]], records.values_at("model", "at", "count", "read", "columns")
    assert_operator records["us"], :>, 0
    assert_operator records["unread_bytes"], :>, 200 * 14
    assert_equal [["name"]], in_shop("evidence(\"/index\")[:records]").map { |one| one["read"] & %w[name style] }
  end

  def test_views
    views = evidence("index")["views"].to_h { |view| [view["name"], view] }
    assert_equal({ "app/views/beers/index.html.erb" => 1, "app/views/beers/_row.html.erb" => 20, "app/views/layouts/shop.html.erb" => 1 },
                 views.transform_values { |view| view["count"] })
    page, row = views.values_at("app/views/beers/index.html.erb", "app/views/beers/_row.html.erb")
    assert_in_delta page["us"], page["own_us"] + row["us"], 2
    assert_equal row["us"], row["own_us"]
  end

  def test_outbound_calls
    calls = evidence("prices")["outbound"]
    assert_equal 1, calls.size
    assert_match(%r{\Ahttp://127\.0\.0\.1:\d+\z}, calls.first["origin"])
    assert_equal [3, 3, 0, 1, 3, "net_http"], calls.first.values_at("calls", "connections", "tls_us", "identical", "gets", "client")
    assert_equal "app/shop.rb:#{line_of("Net::HTTP.get_response")}", calls.first["at"]
    assert_operator calls.first["longest_us"], :<=, calls.first["connect_us"] + calls.first["wait_us"]
  end

  def test_xml_that_is_written
    xml = evidence("feed")["xml"]
    assert_equal [31, "app/views/beers/feed.xml.builder:3"], xml.values_at("tags", "at")
    assert_operator xml["us"], :<, evidence("feed")["views"].first["us"]
  end

  def test_xml_that_is_read
    assert_equal ["REXML", 1, "app/shop.rb:#{line_of("Hash.from_xml")}"], evidence("order")["xml_mini"].values_at("backend", "calls", "at")
  end

  def test_pstore
    pstore = evidence("guide")["pstore"]
    assert_equal [2, 1], pstore.values_at("transactions", "writes")
    assert_operator pstore["bytes"], :>, 1000
    assert_equal "app/shop.rb:#{line_of("GUIDE.transaction(true)")}", pstore["at"]
  end

  def test_log
    log = evidence("twice")["log"]
    assert_equal "debug", log["level"]
    # Two queries, beside Rails' own line about what it renders.
    assert_operator log["debug_lines"], :>=, 2
    assert_operator log["lines"], :>, log["debug_lines"]
    assert_operator log["bytes"], :>, 200
  end

  def test_mail
    assert_equal [2, "app/shop.rb:#{line_of("Postman.hello.deliver_now")}"], evidence("mail")["mail"].values_at("count", "at")
  end

  def test_cache
    assert_nil evidence("index")["cache"]
    assert_equal [4, 2, "app/shop.rb:#{line_of("Rails.cache.read_multi")}"], evidence("cached")["cache"].values_at("reads", "hits", "at")
  end

  def test_session
    session = evidence("visit")["session"]
    assert_equal ["ActionDispatch::Session::CookieStore", true], session.values_at("store", "changed")
    assert_operator session["bytes"], :>, 500
  end

  def test_middleware
    names = evidence("index")["middleware"].map { |one| one["name"] }
    assert_includes names, "SlowThing"
    assert_includes names, "ActionDispatch::Executor"
    refute(names.any? { |name| name.include?("ShopApplication") || name.include?("RouteSet") || name.empty? })
    # It works on nothing but its own.
    slow = evidence("pieces")["middleware"].max_by { |one| one["own_us"] }
    assert_equal ["SlowThing", "app/shop.rb:#{line_of("def call(env)")}"], slow.values_at("name", "at")
  end

  def test_json
    json = evidence("data")["json"]
    assert_equal [evidence("data")["response"][1].bytesize, "app/shop.rb:#{line_of("render json:")}"], json.values_at("bytes", "at")
  end

  # What records become for the library json takes longer than writing that.
  def test_json_of_records_by_the_library_json
    json, size, busy = in_shop(<<~'RUBY')
      ActiveRecord::Base.prepend(Module.new { def serializable_hash(*) = super.tap { sleep 0.001 } })
      found = evidence("/listed")
      # As if it had a processor in a tenth of the time.
      Paceline::Server::Shadow::Cost.define_singleton_method(:waited) { |_| Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_microsecond) * 0.9 }
      [found[:json], found[:response][1].bytesize, evidence("/listed")[:json]]
    RUBY
    assert_equal [size, "app/shop.rb:#{line_of("JSON.generate")}"], json.values_at("bytes", "at")
    assert_operator json["us"], :>, 20_000
    assert_operator busy["us"] * 3, :<, json["us"]
  end

  def test_request_that_fails
    result = in_shop(<<~'RUBY')
      evidence = Paceline::Server::Shadow::Evidence.new(root: ROOT)
      error = begin
        evidence.around(env("/index")) { Beer.first; raise "no beer" }
      rescue RuntimeError => e
        e.message
      end
      before = evidence.to_h[:sql].map { |one| one[:count] }
      Beer.first
      [error, before, evidence.to_h[:sql].map { |one| one[:count] }, Paceline::Server::Shadow::Evidence::Sql.active.nil?]
    RUBY
    assert_equal ["no beer", [1], [1], true], result
  end
end
