# An owner's rules against the app's word: pages that say private are kept, one for each visitor, and never given to another.
require_relative "../support/cached_site"
require "securerandom"

class CacheStubbornTest < Minitest::Test
  include CachedSite

  PRIVATE = { "cache-control" => "max-age=0, private, must-revalidate" }.freeze
  NAME = "_shop_session".freeze

  def rule(*more, path: "/*", ttl: "60s", cookies: [NAME])
    list = cookies.map { |cookie| "\"#{cookie}\"" }.join(", ")
    ["[[site.cache]]", "path = \"#{path}\"", "ttl = \"#{ttl}\"", "cookies = [#{list}]", *more].join("\n")
  end

  def session(name) = "#{NAME}=#{name.ljust(32, "0")}"

  # A session that keeps its cookie, as with a store on the server.
  def pages(*more, fields: PRIVATE, **options)
    site(rule(*more, **options)) { |one| [one.method == "POST" ? 303 : 200, fields, "#{one["cookie"]} #{calls}"] }
  end

  def see(cookie, path = "/", **fields) = ask(path, { "Cookie" => cookie, **fields.transform_keys(&:to_s) })

  def test_one_page_for_each_visitor
    pages
    assert_equal "fwd=uri-miss; stored", words(see(session("a")))
    again = see(session("a"))
    assert_equal ["hit", "#{session("a")} 1", PRIVATE["cache-control"]], [words(again), again.body, again["cache-control"]]
    assert_equal "#{session("b")} 2", see(session("b")).body
    assert_equal " 3", ask("/").body
    assert_equal [" 3", "hit"], ask("/").then { |one| [one.body, words(one)] }
    assert_equal "hit", words(see("_ga=1; #{session("a")}")), "analytics cookies and their order do not matter"
    assert_equal 3, calls
  end

  def test_several_cookies_in_any_order
    pages(cookies: [NAME, "theme"])
    see("#{session("a")}; theme=dark")
    assert_equal "hit", words(see("_ga=1; theme=dark; #{session("a")}"))
    assert_equal "fwd=uri-miss; stored", words(see("#{session("a")}; theme=light"))
    assert_equal "fwd=uri-miss; stored", words(see(session("a")))
  end

  def test_what_is_never_kept
    { "no-store" => "no-store", "no-cache" => "no-cache", "max-age=60, no-store" => "no-store" }.each do |said, reason|
      pages(fields: { "cache-control" => said })
      @client = nil
      assert_equal ["fwd=uri-miss; detail=#{reason}", nil], [words(see(session("a"))), words(see(session("a")))[/hit/]]
    end
    pages("no_cache = true", fields: { "cache-control" => "no-cache" })
    @client = nil
    see(session("a"))
    assert_equal "hit", words(see(session("a")))
  end

  def test_who_shows_himself_otherwise_gets_his_own
    pages
    see(session("a"))
    %w[Authorization X-Api-Key X-Redmine-API-Key X-Auth-Token X-Remote-User X-Session-Id].each do |name|
      2.times { assert_equal "fwd=bypass; detail=cookies", words(see(session("a"), "/", name => "secret")), name }
    end
    assert_equal "#{session("a")} 1", see(session("a")).body
  end

  def test_set_cookie_is_refused_or_stripped
    says = { "set-cookie" => ["#{session("b")}; path=/; HttpOnly"] }
    pages(fields: PRIVATE.merge(says))
    2.times { refute_equal "hit", words(see(session("a"))) }
    pages('set_cookie = "strip"', fields: PRIVATE.merge(says))
    @client = nil
    first = see(session("a"))
    again = see(session("a"))
    assert_equal [["fwd=uri-miss; stored", "#{session("b")}; path=/; HttpOnly"], ["hit", nil]], [first, again].map { |one| [words(one), one["set-cookie"]] }
    pages('set_cookie = "strip"', fields: PRIVATE.merge("set-cookie" => ["#{session("b")}; HttpOnly", "unknown=1"]))
    @client = nil
    2.times { assert_match(/detail=(set-cookie|uncacheable)/, words(see(session("a")))) }
    pages('set_cookie = "strip"', fields: PRIVATE.merge(says))
    @client = nil
    2.times { assert_match(/detail=(set-cookie|uncacheable)/, words(ask("/"))) }
  end

  # A client that takes over each cookie, and an app that seals its session anew in each response (Rails' cookie store).
  class Browser
    attr_accessor :cookies
    def initialize(client) = (@client, @cookies = client, {})
    def send(path, method = "GET") = @client.send(path, @cookies.empty? ? {} : { "Cookie" => @cookies.map { |pair| pair.join("=") }.join("; ") }, method: method, body: method == "POST" ? "x" : nil)
    def ask(path, method = "GET")
      send(path, method)
      receive
    end

    def receive
      response = @client.receive
      response.all("set-cookie").each { |line| line.split(";").first.split("=", 2).then { |name, value| @cookies[name] = value } }
      response
    end
  end

  def browser = Browser.new(client)

  # What a session says, sealed: another text each time.
  def seal(session) = "#{NAME}=#{[Marshal.dump([SecureRandom.hex(8), session])].pack("m0").tr("=+/", "-._")}; path=/; HttpOnly"

  def unseal(text)
    text && Marshal.load(text.tr("-._", "=+/").unpack1("m0"))[1]
  end

  def sealing_app(*more, path: "/*", &page)
    posts = Hash.new(0)
    lock = Mutex.new
    site(rule('set_cookie = "strip"', *more, path: path)) do |one|
      session = unseal(one.cookies[NAME]) || {}
      if one.method == "POST"
        user = one.path[%r{\A/login/(.*)}, 1] || session[:user]
        lock.synchronize { posts[user] += 1 }
        next [303, PRIVATE.merge("location" => "/after", "set-cookie" => seal({ user: user, flash: "done" })), ""]
      end
      page&.call(one, session)
      flash = session.delete(:flash)
      [200, PRIVATE.merge("set-cookie" => seal(session)), "#{session[:user]} posts=#{posts[session[:user]]} #{flash}"]
    end
  end

  def test_a_session_renewed_with_each_response
    sealing_app
    one, other = browser, browser
    one.ask("/login/ann", "POST")
    other.ask("/login/bob", "POST")
    assert_equal "ann posts=1 done", one.ask("/").body
    assert_equal "ann posts=1 ", one.ask("/").body, "what was shown once is not kept"
    hits = Array.new(5) { one.ask("/") }
    assert_equal [["ann posts=1 ", "hit"]], hits.map { |hit| [hit.body, words(hit)] }.uniq
    assert_equal "bob posts=1 done", other.ask("/").body
    3.times { other.ask("/") }
    one.ask("/x", "POST")
    assert_equal "ann posts=2 done", one.ask("/").body
    assert_equal "ann posts=2 ", one.ask("/").body
    assert_equal ["bob posts=1 ", "hit"], other.ask("/").then { |hit| [hit.body, words(hit)] }
  end

  def test_what_is_shown_once_after_the_first_login
    site(rule) do |one|
      next [303, { "set-cookie" => "#{session("new")}; HttpOnly", "location" => "/" }, ""] if one.method == "POST"
      [200, PRIVATE, "seen #{calls}"]
    end
    visitor = browser
    visitor.ask("/login", "POST")
    refute_equal visitor.ask("/").body, visitor.ask("/").body
  end

  def test_what_is_shown_once_after_a_second_redirect
    sealing_app { |one, _session| raise "never" if one.path == "/redirected" }
    application = @application
    @application = lambda do |one, link|
      next application.call(one, link) unless one.path == "/step"
      [302, { "location" => "/", "set-cookie" => seal(unseal(one.cookies[NAME])) }, ""]
    end
    one = browser
    one.ask("/login/ann", "POST")
    assert_equal 302, one.ask("/step").status
    assert_equal ["ann posts=1 done", "ann posts=1 "], [one.ask("/").body, one.ask("/").body]
  end

  def test_a_page_asked_for_before_a_change_is_not_kept_after_it
    open = Queue.new
    version = "old"
    site(rule) do |one|
      next [200, {}, (version = "new")] if one.method == "POST"
      rendered = version
      open.pop if one.path == "/slow"
      [200, PRIVATE, "#{rendered} #{calls}"]
    end
    slow = client.send("/slow", { "Cookie" => session("a") })
    reached(1)
    see(session("a"), "/page")
    assert_equal "hit", words(see(session("a"), "/page"))
    ask("/x", { "Cookie" => session("a") }, method: "POST", body: "")
    open << 1
    assert_match(/\Aold/, slow.receive.body)
    # The one that may be shown once comes after the one that was under way, and is not kept for that.
    first = see(session("a"), "/page")
    assert_match(/\Anew/, first.body)
    refute_equal first.body, see(session("a"), "/page").body
    open << 1
    assert_match(/\Anew/, see(session("a"), "/slow").body)
  end

  def test_others_keep_theirs
    pages
    see(session("a"))
    see(session("b"))
    ask("/other", { "Cookie" => session("a") }, method: "POST", body: "")
    assert_equal ["fwd=uri-miss", "hit"], [words(see(session("a"))).split(";").first, words(see(session("b")))]
    assert_match(/hit/, 2.times.map { words(see(session("a"))) }.last)
  end

  def test_a_session_that_the_rule_does_not_name
    site(rule(cookies: [])) { |one| [200, one.path == "/login" ? { "set-cookie" => "_id=0123456789abcdef; HttpOnly" } : PRIVATE, one.cookies["_id"].to_s] }
    ask("/login")
    2.times do |n|
      mine = see("_id=user-#{n}")
      assert_equal ["user-#{n}", "fwd=bypass; detail=cookies"], [mine.body, words(mine)]
    end
    ask("/")
    assert_equal "", ask("/").body
    @server.wait_for(/\[\[cache\]\].*_id/)
    assert_equal 1, @server.output.scan(/\[\[cache\]\].*_id/).size, "it is said once"
  end

  # A value that everybody may have is nobody's session.
  def test_a_cookie_that_many_have_is_not_handed_on
    site(rule('set_cookie = "strip"')) do |one|
      value = one.cookies[NAME]
      [200, PRIVATE.merge("set-cookie" => "#{NAME}=#{one["x-login"] || "guest"}; HttpOnly"), "#{value} #{one["x-login"]}"]
    end
    %W[#{NAME}=guest #{NAME}= #{NAME}=deleted].each do |cookie|
      see(cookie, "/", "X-Login" => "secret-of-ann-000000000000000")
      refute_includes see(cookie).body, "ann"
      see("#{NAME}=secret-of-bob-000000000000000", "/bye", "X-Login" => cookie.split("=", 2).last)
      refute_includes see(cookie, "/bye").body, "bob"
    end
  end

  # Whatever the app may take for the cookie, and this server does not.
  def test_cookies_that_can_be_read_in_two_ways
    pages
    ask("/")
    ["x=1, #{session("evil")}", "x=\"1; #{session("evil")}\"", "#{NAME} =evil", "%5Fshop_session=evil", NAME, "x=1 #{session("evil")}"].each do |cookie|
      2.times { assert_match(/\A#{Regexp.escape(cookie)} \d+\z/, see(cookie).body) }
      assert_equal " 1", ask("/").body, "after #{cookie}"
    end
  end

  # Thousands of orders of events of a few visitors, each response held against who asked for it. `SEED=` repeats one.
  def test_one_visitors_page_is_never_given_to_another
    seed = Integer(ENV.fetch("SEED", "20261120"))
    dice = Random.new(seed)
    rounds = 0
    [2, 3].each do |number|
      [true, false].each do |sealed|
        @servers&.each(&:kill)
        sealed ? interleaved_app_sealed : interleaved_app_stored
        visitors = Array.new(number) { Visitor.new(browser, nil) }
        530.times { rounds += interleave(visitors, dice, "SEED=#{seed}, #{number} visitors, sealed: #{sealed}") }
      end
    end
    assert_operator rounds, :>, 10_000
  end

  Visitor = Struct.new(:browser, :user)

  # All but the first of a round are under way at the same time.
  def interleave(visitors, dice, where)
    visitors.each do |visitor|
      case dice.rand(12)
      when 0
        visitor.user = "user#{dice.rand(3)}"
        visitor.browser.ask("/login/#{visitor.user}", "POST")
      when 1
        visitor.browser.ask("/logout", "POST")
        visitor.user = nil
      when 2
        visitor.browser.ask("/change", "POST") if visitor.user
      end
    end
    2.times do
      asked = visitors.map { |visitor| [visitor, "/page/#{dice.rand(3)}"] }.shuffle(random: dice)
      asked.each { |visitor, path| visitor.browser.send(path) }
      asked.each do |visitor, path|
        page = visitor.browser.receive
        seen = page.body[/\Auser=(\w*);/, 1] or flunk("#{where}: #{page.body}")
        assert_equal visitor.user.to_s, seen, "#{where}: #{path}, #{status(page)}"
        changes = Integer(page.body[/changes=(\d+)/, 1])
        assert_operator changes, :>=, @seen[visitor].to_i, "#{where}: #{path}, #{status(page)}: he has seen what came after" if visitor.user && @changed_by[visitor]
        @hits += 1 if status(page).start_with?("hit")
      end
    end
    2 * visitors.size
  end

  def interleaved(rules, &application)
    @changes = Hash.new(0)
    @changed_by, @seen, @hits = {}, {}, 0
    site(rules, &application)
  end

  def interleaved_app_sealed
    interleaved(rule('set_cookie = "strip"')) do |one|
      session = unseal(one.cookies[NAME]) || {}
      session = { user: one.path[%r{/login/(.*)}, 1] } if one.path.start_with?("/login")
      session = {} if one.path == "/logout"
      @changes[session[:user]] += 1 if one.path == "/change"
      next [303, { "set-cookie" => seal(session), "location" => "/page/0" }, ""] if one.method == "POST"
      [200, PRIVATE.merge("set-cookie" => seal(session)), "user=#{session[:user]}; changes=#{@changes[session[:user]]}"]
    end
  end

  def interleaved_app_stored
    sessions = {}
    interleaved(rule) do |one|
      user = sessions[one.cookies[NAME]]
      if one.method == "POST"
        user = one.path[%r{/login/(.*)}, 1] || (user unless one.path == "/logout")
        @changes[user] += 1 if one.path == "/change"
        sessions[id = SecureRandom.hex(16)] = user
        next [303, { "set-cookie" => "#{NAME}=#{id}; HttpOnly", "location" => "/page/0" }, ""]
      end
      [200, PRIVATE, "user=#{user}; changes=#{@changes[user]}"]
    end
  end
end
