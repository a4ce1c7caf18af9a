# Cookies under an owner's rules: each is named by the rule, or is no page's matter, or makes the request private.
require_relative "../support/cached_site"

class CacheCookiesTest < Minitest::Test
  include CachedSite

  PRIVATE = { "cache-control" => "max-age=0, private, must-revalidate" }.freeze
  LOGIN = { "set-cookie" => "_id=0123456789abcdef; path=/; HttpOnly" }.freeze
  BYPASS = "fwd=bypass; detail=cookies".freeze

  def rule(*more, path: "/*", **names)
    lists = names.map { |key, cookies| "#{key} = [#{cookies.map { |cookie| "\"#{cookie}\"" }.join(", ")}]" }
    ["[[site.cache]]", "path = \"#{path}\"", "ttl = \"1h\"", *lists, *more].join("\n")
  end

  # An app that shows who asks, and keeps its session from scripts: /login sets it.
  def pages(toml, **options)
    site(toml, **options) { |one| [200, one.path == "/login" ? LOGIN : PRIVATE, "[#{one["cookie"]}] #{calls}"] }
  end

  def see(cookie, path = "/") = ask(path, cookie ? { "Cookie" => cookie } : {})

  # Each gets the page that the app makes for his cookie, and it is not kept.
  def assert_own(*cookies, path: "/")
    cookies.each do |cookie|
      2.times do
        page = see(cookie, path)
        assert_equal [BYPASS, "[#{cookie}]"], [words(page), page.body[/\A\[.*\]/]]
      end
    end
  end

  def test_a_cookie_that_is_not_known_is_somebodys_where_none_are_named
    pages(rule(ignore_cookies: []))
    assert_own("_id=ann", "_id=bob", "x=1; _ga=2", "_id", "_ga=1, _id=ann")
    assert_equal %w[fwd=uri-miss;\ stored hit], [words(see(nil)), words(see(nil))]
    shared = see(nil).body
    assert_own("_id=ann")
    assert_equal ["hit", shared], see(nil).then { |page| [words(page), page.body] }
    @server.wait_for(/Warning: \[\[cache\]\] path = "\/\*" does not name the cookie "_id": .* add it to cookies; if no page depends on it, to ignore_cookies/)
    assert_equal 1, @server.output.scan("does not name the cookie \"_id\"").size, "it is said once"
  end

  # The app has set no cookie yet, and the pages of visitors with a session differ all the same.
  def test_a_cookie_that_is_not_known_is_somebodys_where_others_are_named
    pages(rule(cookies: ["theme"]))
    assert_own("_id=ann", "_id=bob", "theme=dark; _id=ann", "theme=dark; _id=bob")
    see(nil, "/login")
    assert_own("_id=ann", "theme=dark; _id=ann", "theme=dark; XSRF-TOKEN=abc")
    assert_equal %w[fwd=uri-miss;\ stored hit], [words(see("theme=dark")), words(see("theme=dark; _ga=1"))]
  end

  # A visitor can make up as many names as he likes.
  def test_few_names_are_warned_of
    pages(rule(cookies: ["theme"]))
    assert_own(*Array.new(20) { |n| "made-up-#{n}=1" })
    @server.wait_for(/does not name the cookie "made-up-7"/)
    assert_equal 8, @server.output.scan("does not name the cookie").size
  end

  def test_an_app_without_such_cookies_is_cached_for_visitors_with_cookies_that_are_known
    pages(rule(ignore_cookies: ["theme", "consent_*"]))
    first = see("_ga=GA1.2.3; theme=dark").body
    ["_ga_5XQ2N=GS1.1; _pk_id.1.ab=2", "theme=light", "consent_v2=yes", nil].each do |cookie|
      assert_equal ["hit", first], see(cookie).then { |page| [words(page), page.body] }, cookie
    end
    assert_own("themes=light")
    pages(rule(cookies: ["theme"], ignore_cookies: ["other"]))
    @client = nil
    see("theme=dark")
    assert_equal %w[hit fwd=uri-miss;\ stored], [words(see("theme=dark; other=1")), words(see("theme=light"))]
  end

  def test_a_cookie_that_an_app_may_find_where_the_server_does_not
    pages(rule(cookies: ["theme"]))
    assert_own("x=1, _id=ann", "x=\"1; _id=ann\"", "_id=ann")
  end

  def test_a_rule_that_says_nothing_of_cookies_is_refused
    dir = app("paceline.toml" => "[[site]]\nroot = \".\"\n#{rule}\n", "config.ru" => "run ->(env) { [200, {}, []] }\n")
    text = IO.popen(AS_ROOT, [BIN, "check", { chdir: dir }], err: %i[child out], &:read)
    assert_match(/has neither cookies nor ignore_cookies for \/\*: add cookies = \["_session"\] .*, or ignore_cookies = \["theme"\]/, text)
    assert_equal 2, $?.exitstatus
  end
end
