# What the page cache learns of an app's cookies under an owner's rules: whose pages are never shared, that it is known after a
# restart and an upgrade, and what the owner is told of it.
require_relative "../support/cached_site"
require_relative "../support/control"

class CacheCookiesTest < Minitest::Test
  include CachedSite
  include Control

  PRIVATE = { "cache-control" => "max-age=0, private, must-revalidate" }.freeze
  LOGIN = { "set-cookie" => "_id=0123456789abcdef; path=/; HttpOnly" }.freeze
  BYPASS = "fwd=bypass; detail=cookies".freeze
  FILE = "tmp/cache/paceline/cookies.json".freeze

  def rule(*more, path: "/*", cookies: nil)
    named = "cookies = [#{cookies.map { |cookie| "\"#{cookie}\"" }.join(", ")}]" if cookies
    ["[[site.cache]]", "path = \"#{path}\"", "ttl = \"1h\"", *named, *more].join("\n")
  end

  # An app that shows who asks, and keeps its session from scripts: /login sets it.
  def pages(toml, **options)
    site(toml, **options) { |one| [200, one.path == "/login" ? LOGIN : PRIVATE, "[#{one["cookie"]}] #{calls}"] }
  end

  def see(cookie, path = "/") = ask(path, cookie ? { "Cookie" => cookie } : {})

  # A server in the same folder, after what the block does there.
  def again(with: :TERM)
    with == :KILL ? @server.kill : @server.stop
    yield @server.dir if block_given?
    @client&.close
    @client = nil
    @server = serve(@server.dir, ready: false)
  end

  def file = File.join(@server.dir, FILE)

  def learned = control(@server, "/cache/stats")["sites"].values.first["cookies"]["http_only"]

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
    pages(rule)
    assert_own("_id=ann", "_id=bob", "x=1; _ga=2", "_id", "_ga=1, _id=ann")
    assert_equal %w[fwd=uri-miss;\ stored hit], [words(see(nil)), words(see(nil))]
    shared = see(nil).body
    assert_own("_id=ann")
    assert_equal ["hit", shared], see(nil).then { |page| [words(page), page.body] }
    @server.wait_for(/\[\[cache\]\] path = "\/\*" names no cookies, .* like "_id"/)
    assert_equal 1, @server.output.scan("names no cookies, ").size, "it is said once"
  end

  def test_what_was_learned_of_one_cookie_says_nothing_of_another
    site(rule) { |one| [200, one.path == "/" ? PRIVATE.merge("set-cookie" => "locale=de; HttpOnly") : PRIVATE, "[#{one["cookie"]}]"] }
    see(nil)
    assert_own("_id=ann", "_id=bob", "locale=de", path: "/page")
  end

  def test_an_app_without_such_cookies_is_cached_for_visitors_with_cookies_that_are_known
    pages(rule('ignore_cookies = ["theme", "consent_*"]'))
    first = see("_ga=GA1.2.3; theme=dark").body
    ["_ga_5XQ2N=GS1.1; _pk_id.1.ab=2", "theme=light", "consent_v2=yes", nil].each do |cookie|
      assert_equal ["hit", first], see(cookie).then { |page| [words(page), page.body] }, cookie
    end
    assert_own("themes=light")
    pages(rule(cookies: ["theme"]))
    @client = nil
    see("theme=dark")
    assert_equal %w[hit fwd=uri-miss;\ stored], [words(see("theme=dark; other=1")), words(see("theme=light"))]
  end

  def test_a_cookie_that_an_app_may_find_where_the_server_does_not
    pages(rule(cookies: ["theme"]))
    see(nil, "/login")
    assert_own("x=1, _id=ann", "x=\"1; _id=ann\"", "_id=ann")
  end

  # `_id` is no cookie of the rule, and a server that has just started has seen nobody log in.
  def test_names_are_known_after_a_restart_and_a_crash
    { TERM: "", KILL: "", QUIT: "cache_disk = \"8MB\"" }.each do |signal, top|
      pages(rule(cookies: ["theme"]), top: top)
      @client = nil
      see(nil, "/login")
      assert_own("_id=ann")
      eventually("the name in #{FILE}") { File.exist?(file) && File.read(file).include?("_id") } if signal == :KILL
      again(with: signal)
      assert_own("_id=ann", "_id=bob", "theme=dark; _id=ann")
      assert_equal ["_id"], learned
      assert_equal ["600", "700"], [file, File.dirname(file)].map { |path| (File.stat(path).mode & 0o777).to_s(8) }
    end
  end

  def test_names_are_known_after_an_upgrade_without_a_file
    pages(rule(cookies: ["theme"]))
    see(nil, "/login")
    eventually("the file") { File.exist?(file) }
    File.delete(file)
    out, status = command(@server.dir, "upgrade", "--wait")
    assert_equal 0, status, out
    @client = nil
    assert_own("_id=ann", "_id=bob")
    eventually("the new front to write it as well") { File.exist?(file) && File.read(file).include?("_id") }
  end

  def test_what_the_old_front_learns_of_its_last_requests_the_new_one_knows
    open = Queue.new
    site(rule(cookies: ["theme"])) do |one|
      open.pop if one.path == "/login"
      [200, one.path == "/login" ? LOGIN : PRIVATE, "[#{one["cookie"]}]"]
    end
    slow = client.send("/login")
    reached(1)
    out, status = command(@server.dir, "upgrade", "--wait")
    assert_equal 0, status, out
    assert_empty learned
    open << 1
    assert_equal 200, slow.receive.status
    eventually("the new front to know of it") { learned == ["_id"] }
    assert_own("_id=ann", "_id=bob")
  end

  def test_each_site_has_its_own_names
    pages("host = \"shop.test\"\n#{rule(cookies: ["theme"])}", top: "cache_dir = \"kept\"")
    shop = File.read(File.join(@server.dir, "paceline.toml"))
    again { |dir| write(dir, "paceline.toml" => "#{shop}\n#{shop[/^\[\[site\]\].*/m].sub("shop.test", "blog.test")}") }
    see(nil, "/login")
    eventually("the name in kept") { File.exist?(path = File.join(@server.dir, "kept/cookies.json")) && File.read(path).include?("_id") }
    again
    assert_own("_id=ann")
    assert_match(/stored/, words(ask("/", { "Cookie" => "_id=ann" }, host: "blog.test")))
  end

  # Its settings have changed, and it is made anew.
  def test_a_site_that_starts_anew_knows_its_names
    rack = "run ->(env) { [200, env['PATH_INFO'] == '/login' ? #{LOGIN} : #{PRIVATE}, [\"[\#{env['HTTP_COOKIE']}]\"]] }\n"
    settings = rule(cookies: ["theme"]).sub("site.cache", "cache")
    dir = app("sites/shop/config.ru" => rack, "sites/shop/paceline.toml" => settings)
    @server = serve(dir, "--sites", "sites", ready: false)
    ask("/login", host: "shop.test")
    requests = -> { JSON.parse(command(dir, "cache", "stats", "--json", "--control", "sites/.paceline.sock")[0])["sites"]["shop"]["requests"] }
    assert_equal 1, requests.call
    write(dir, "sites/shop/paceline.toml.new" => settings.sub("1h", "2h"))
    File.rename(File.join(dir, "sites/shop/paceline.toml.new"), File.join(dir, "sites/shop/paceline.toml"))
    @server.wait_for(/shop: its settings or files have changed/)
    eventually("the new one to be asked") { requests.call.zero? }
    assert_own("_id=ann", "_id=bob")
  end

  def test_a_purge_takes_no_names
    pages(rule(cookies: ["theme"]))
    see(nil, "/login")
    assert_equal 0, command(@server.dir, "purge", "--all")[1]
    assert_own("_id=ann")
    again
    assert_own("_id=ann")
  end

  def test_a_file_that_is_damaged_or_of_another_version_is_said_and_replaced
    pages(rule(cookies: ["theme"]), top: "cache_disk = \"8MB\"")
    see(nil, "/login")
    { "{\"version\":1,\"si" => "damaged", "{\"version\":99,\"sites\":{}}" => "of another version" }.each do |content, why|
      again { File.write(file, content) }
      @server.wait_for(/What was learned of the applications' cookies can't be read, and is learned again: .*cookies\.json: it is #{why}/)
      see(nil, "/login")
      assert_own("_id=ann")
    end
    # The pages' own file has nothing to do with it.
    again { File.write(File.join(File.dirname(file), "data.mdb"), "x" * 8192) }
    @server.wait_for(/What the cache kept on disk is damaged/)
    assert_own("_id=ann")
  end

  def test_where_there_is_no_folder_for_them_it_is_said
    pages(rule(cookies: ["theme"]), top: "cache_dir = \"paceline.toml\"")
    see(nil, "/login")
    @server.wait_for(/What is learned of the applications' cookies is lost with the next restart: .*it is not a directory/)
    assert_own("_id=ann")
    again
    # Where none are named nothing has to be learned first.
    again { |dir| File.write(File.join(dir, "paceline.toml"), File.read(File.join(dir, "paceline.toml")).sub("cookies = [\"theme\"]", "")) }
    assert_own("_id=ann", "_id=bob")
  end

  TOKEN = { "set-cookie" => "XSRF-TOKEN=abc; path=/" }.freeze

  def test_a_token_that_scripts_read_is_warned_of
    site("host = \"shop.test\"\n#{rule(path: "/a/*", cookies: ["_session"])}\n#{rule(path: "/b/*")}\n#{rule(path: "/c/*", cookies: ["XSRF-TOKEN"])}") do |one|
      case one.path
      when "/form" then [200, PRIVATE.merge(TOKEN), "form"]
      when "/public" then [200, TOKEN.merge("cache-control" => "public, max-age=60"), "public"]
      else [200, PRIVATE, "page"]
      end
    end
    refute_match(/XSRF/, command(@server.dir, "cache", "stats")[0] + command(@server.dir, "check")[0])
    see(nil, "/form")
    rule_a = /\[\[cache\]\] path = "\/a\/\*" does not name the cookie "XSRF-TOKEN", .* may be given to others. Set cookies = \["_session", "XSRF-TOKEN"\] in this rule/
    rule_b = /\[\[cache\]\] path = "\/b\/\*" does not name the cookie "XSRF-TOKEN", .* not answered by the rule. Set cookies = \["XSRF-TOKEN"\]/
    page = /The page "\/public" says that it is everybody's and sets the cookie "XSRF-TOKEN".* Send Cache-Control: private/
    @server.wait_for(rule_a)
    assert_warned(/Warning: /, rule_a, rule_b)
    refute_match(page, command(@server.dir, "check")[0])
    assert_equal "fwd=uri-miss; stored", words(see(nil, "/public"))
    assert_warned(/Warning: /, rule_a, rule_b, page)
    out, status = command(@server.dir, "check")
    assert_equal 0, status, out
    assert_equal 3, out.scan("warning site shop.test: ").size, out
    assert_equal 3, JSON.parse(command(@server.dir, "cache", "stats", "--json")[0])["sites"]["shop.test"]["warnings"].size
    refute_match(%r{"/c/\*" does not name}, out)
    # Without a running server what it has left is looked at.
    @server.stop
    out, = command(@server.dir, "check")
    [rule_a, rule_b, page].each { |warning| assert_match(warning, out) }
  end

  def assert_warned(before, *warnings)
    stats, check = command(@server.dir, "cache", "stats")[0], command(@server.dir, "check")[0]
    warnings.each do |warning|
      assert_match(/#{before}#{warning}/, stats)
      assert_match(/warning site shop\.test: #{warning}/, check)
    end
  end
end
