# Logins at a real identity provider (oidc-provider) through the server: by a browser by hand and by Chromium.
require "base64"
require_relative "../../e2e/support/set_clock"
require_relative "../support/front"
require_relative "../support/provider"

class ServerOpenidTest < Minitest::Test
  include Front

  SECRET = "secret-of-shop"
  CALLBACK = "/.paceline/sso/callback"
  LOGOUT = "/.paceline/sso/logout"
  BACKCHANNEL = "/.paceline/sso/backchannel-logout"

  def setup
    super
    flunk "#{OpenidProvider.missing.join} missing: bin/setup test" if OpenidProvider.missing.any?
    @folder = Dir.mktmpdir("paceline-openid-")
    @provider = OpenidProvider.new(trust: authority.file(@folder), backchannel: "SITE#{BACKCHANNEL}")
  end

  def teardown
    super
    @provider.stop
    FileUtils.rm_rf(@folder)
  end

  # A site that sends browsers to the provider.
  def site(more = "", options: "", **rest)
    secret = File.join(@folder, "client-secret")
    File.write(secret, "#{SECRET}\n", perm: 0o600)
    front(<<~TOML, **rest)
      [[sso]]
      oidc = { issuer = "#{@provider.issuer}", client_id = "shop", client_secret_file = "#{secret}", scopes = ["profile", "email", "groups", "offline_access"], groups_claim = "groups"#{options} }
      otherwise = "oidc"
      #{more}
    TOML
    @provider.site = "https://localhost:#{@server.port}"
  end

  def browser(**options) = super(host: "localhost", **options)

  def signed_in(name = "alice", path = "/", browser: browser())
    answer = browser.sign_in_as(name, browser.open(path))
    assert_signed_in name, answer
    browser
  end

  # A browser at the way back from the provider, which it has not opened: [browser, its address].
  def on_its_way_back(name = "alice")
    browser = browser()
    back = nil
    browser.sign_in_as(name, browser.open("/")) { |target| back = target if target.include?(CALLBACK) }
    refute_nil back
    [browser, back]
  end

  def test_a_browser_signs_in_and_comes_back_to_its_page
    site
    browser = signed_in("alice", "/orders/7?page=2")
    answer = browser.get("/orders")
    told = told(answer)
    assert_equal "alice", told["REMOTE_USER"]
    assert_equal %w[admins staff], told["paceline.user"]["groups"].sort
    assert_match(/\Ao(idc|penid)/, told["paceline.user"]["mechanism"])
    assert_equal ["/orders/7"], browser.visits.select { |path, code| code == "200" && path.start_with?("/orders/") }.map(&:first)
    refute_includes JSON.generate(told), browser.cookies("https://localhost:#{@server.port}").values.last
  end

  def test_the_login_asks_with_pkce_and_state
    site
    query = URI.decode_www_form(URI(browser.open("/")["location"]).query).to_h
    assert_equal %w[S256 code], query.values_at("code_challenge_method", "response_type")
    %w[state nonce code_challenge].each { |name| assert_operator query[name].to_s.size, :>=, 22, name }
    assert_equal "https://localhost:#{@server.port}#{CALLBACK}", query["redirect_uri"]
  end

  def test_only_a_page_that_is_opened_is_sent_away
    site
    assert_equal "302", browser.open("/").code
    { "fetch" => { "Sec-Fetch-Mode" => "cors", "Accept" => "*/*" }, "an API" => { "Accept" => "application/json" } }.each do |what, fields|
      answer = browser.get("/", fields)
      assert_equal ["401", nil], [answer.code, answer["location"]], what
    end
    answer = browser.post("/", { "a" => "b" }, "Accept" => "text/html", "Sec-Fetch-Mode" => "navigate")
    assert_equal "401", answer.code, "a form's fields would be lost"
  end

  def test_a_state_that_was_changed_signs_nobody_in
    site
    browser, back = on_its_way_back
    answer = browser.open(back.sub(/state=[^&]+/, "state=#{"A" * 43}"))
    assert_match(/\A4\d\d\z/, answer.code, answer.body)
    refute_equal "200", browser.open("/").code
  end

  def test_another_browser_can_not_use_the_way_back
    site
    _, back = on_its_way_back
    stranger = browser()
    refute_equal "200", stranger.open(back).code
    refute_equal "200", stranger.open("/").code
  end

  def test_a_code_is_used_once
    site
    browser, back = on_its_way_back
    assert_signed_in "alice", browser.follow(browser.open(back))
    cookies = browser.cookies.dup
    other = browser()
    other.cookies.merge!(cookies.reject { |name, _| name !~ /login/ })
    refute_signed_in other, other.open(back)
  end

  def test_somebody_who_says_no_at_the_provider_is_told_so
    site
    browser = browser()
    page = browser.follow(browser.open("/"))
    answer = browser.follow(browser.get("#{browser.last}/abort"))
    assert_includes page.body, "form"
    assert_match(/\A(401|403)\z/, answer.code, answer.body)
    assert_includes answer["content-type"], "html"
  end

  # Each is what an attacker, or a provider that is broken, would say in the token.
  %w[signature audience audiences issuer expired future nonce no-nonce unknown-key none hs256 hs256-secret garbage].each do |kind|
    define_method("test_a_token_with_a_wrong_#{kind.tr("-", "_")}_signs_nobody_in") do
      site
      browser, back = on_its_way_back
      @provider.test("forge/#{kind}")
      refute_signed_in browser, browser.open(back)
      refute_match(/eyJ[\w-]{10,}\./, @server.output, "no token is logged")
    end
  end

  def test_new_keys_of_the_provider_are_learned
    site
    signed_in
    @provider.test("rotate")
    signed_in("bob")
  end

  def test_a_provider_that_is_away_is_503_and_says_so
    site
    known = signed_in
    @provider.test("away")
    assert_signed_in "alice", known.get("/")
    browser, back = on_its_way_back_after("back") { @provider.test("away") }
    assert_equal "503", browser.open(back).code
  end

  # The provider's tokens last five minutes: then it is asked whether she is still there, and the browser notices nothing.
  def test_a_session_is_refreshed_behind_the_browsers_back
    clock = with_clock
    browser = signed_in
    tokens = @provider.count("tokens")
    clock.set(310)
    assert_signed_in "alice", browser.get("/later")
    assert_equal tokens + 1, @provider.count("tokens")
    assert_signed_in "alice", browser.get("/later")
    assert_equal tokens + 1, @provider.count("tokens"), "once"
  end

  def test_a_session_ends_when_the_provider_says_so
    clock = with_clock
    browser = signed_in
    @provider.test("no-tokens")
    clock.set(310)
    assert_equal "302", browser.open("/").code
  end

  def test_a_session_outlives_a_provider_that_is_away_for_a_moment
    clock = with_clock
    browser = signed_in
    @provider.test("away")
    clock.set(310)
    assert_signed_in "alice", browser.get("/")
    @provider.test("back")
    tokens = @provider.count("tokens")
    clock.set(400)
    assert_signed_in "alice", browser.get("/")
    assert_equal tokens + 1, @provider.count("tokens")
  end

  def test_a_session_ends_if_nobody_uses_it
    clock = with_clock('idle = "10m"')
    browser = signed_in
    clock.set(601)
    assert_equal "302", browser.open("/").code
  end

  def test_a_provider_that_was_never_there_is_503_and_comes_back
    @provider.test("away")
    site
    assert_equal "503", browser.open("/").code
    @provider.test("back")
    eventually("the provider is asked again") { browser.open("/").code == "302" }
    signed_in
  end

  def test_logout_ends_both_sessions
    site
    browser = signed_in
    stolen = browser.cookies.dup
    answer = browser.open(LOGOUT)
    assert_equal "302", answer.code
    assert_includes answer["location"], @provider.issuer
    refute_equal "200", browser.open("/").code
    thief = browser()
    thief.cookies.merge!(stolen)
    refute_equal "200", thief.open("/").code, "the session is gone, not only its cookie"
  end

  # The provider asks whether that is meant, and leads back.
  def log_out(browser)
    page = browser.follow(browser.open(LOGOUT))
    action, secret = page.body[/action="([^"]+)"/, 1], page.body[/name="xsrf" value="([^"]+)"/, 1]
    browser.follow(browser.post(URI.join(@provider.issuer, action).to_s, { "xsrf" => secret, "logout" => "yes" }))
  end

  def test_after_the_logout_a_page_says_so_and_signs_in_again
    site
    browser = signed_in
    page = log_out(browser)
    assert_equal ["200", "/.paceline/sso/signed-out"], [page.code, URI(browser.last.to_s).path]
    assert_includes page.body, "You are signed out"
    again = page.body[/<a href="([^"]+)">Sign in again</, 1]
    assert_signed_in "alice", browser.sign_in_as("alice", browser.open(again))
    # One who is signed in has nothing to do there.
    assert_equal "/", browser.open("/.paceline/sso/signed-out")["location"]
  end

  def test_another_site_can_not_sign_somebody_out
    site
    browser = signed_in
    browser.get(LOGOUT, "Sec-Fetch-Site" => "cross-site", "Sec-Fetch-Mode" => "no-cors", "Sec-Fetch-Dest" => "image")
    assert_signed_in "alice", browser.get("/")
  end

  # The provider itself tells the server, without any browser.
  def test_a_logout_at_the_provider_ends_the_session_here
    site
    browser = signed_in
    other = signed_in("bob")
    page = browser.open("#{@provider.issuer}/session/end")
    action, secret = page.body[/action="([^"]+)"/, 1], page.body[/name="xsrf" value="([^"]+)"/, 1]
    browser.post(URI.join(@provider.issuer, action).to_s, { "xsrf" => secret, "logout" => "yes" })
    refute_equal "200", browser.open("/").code
    assert_signed_in "bob", other.get("/")
  end

  def test_a_logout_token_that_is_none_ends_nothing
    site
    browser = signed_in
    claims = { "iss" => @provider.issuer, "aud" => "shop", "sub" => "alice", "iat" => Time.now.to_i, "jti" => "1", "events" => { "http://schemas.openid.net/event/backchannel-logout" => {} } }
    unsigned = [{ "alg" => "none" }, claims].map { |part| Base64.urlsafe_encode64(JSON.generate(part), padding: false) }.join(".") + "."
    ["", "nonsense", unsigned].each do |token|
      assert_equal "400", browser().post(BACKCHANNEL, { "logout_token" => token }).code, token
    end
    assert_signed_in "alice", browser.get("/")
  end

  def test_groups_by_the_hundred_fit_into_the_session
    site
    browser = signed_in("many")
    assert_equal 500, told(browser.get("/"))["paceline.user"]["groups"].size
    assert_operator browser.cookies("https://localhost:#{@server.port}").sum { |pair| pair.join.bytesize }, :<, 500
  end

  def test_names_of_all_sorts_arrive_as_they_are_or_not_at_all
    site
    ["bj\u00f8rn", "O'Brien, Pat", "\u5c71\u7530", "a=b;c"].each { |name| signed_in(name) }
    ["mallory\u001fadmins", "mallory\r\nX-Evil: 1", "mallory\u0000", " ", "m" * 5000].each do |name|
      browser = browser()
      answer = browser.sign_in_as(name, browser.open("/"))
      refute_equal "200", answer.code, "#{name.inspect}: #{answer.body}"
      assert_equal "302", browser.open("/").code, name.inspect
    end
  end

  # Wherever a browser is to go after a login, it is a page of this site.
  def test_nobody_is_sent_to_another_site
    site
    browser = signed_in
    ["//evil.example/", "https://evil.example/", "/\\evil.example", "%2f%2fevil.example", "%5cevil.example", "/%09/evil.example", "javascript:alert(1)", "/%0d%0aLocation:%20https://evil.example"].each do |to|
      ["login?to=", "without-ticket?to="].each do |address|
        [browser, browser()].each do |visitor|
          location = visitor.open("/.paceline/sso/#{address}#{to.gsub("\\", "%5c")}")["location"].to_s
          refute_match(/\A(https?:)?\/\/(?!localhost:#{@server.port}|127\.0\.0\.1:)/, location, to)
          refute_match(/evil/, location.split("?").first.to_s.sub(%r{\A/[^/\\].*}, ""), to)
        end
      end
    end
  end

  def test_who_is_not_in_the_group_is_told_so_and_not_sent_round_in_circles
    site('allow = ["user:bob"]')
    browser = browser()
    answer = browser.sign_in_as("alice", browser.open("/"))
    assert_equal "403", answer.code
    assert_includes answer["content-type"], "html"
    signed_in("bob")
  end

  def test_nothing_secret_is_logged
    site(before: "log_requests = true\n")
    browser, back = on_its_way_back
    browser.follow(browser.open(back))
    browser.get("/?last")
    @server.wait_for(/last/)
    code, state = URI.decode_www_form(URI(back).query).to_h.values_at("code", "state")
    [SECRET, code, state, *browser.cookies.values].each { |secret| refute_includes @server.output, secret }
  end

  def test_chromium_signs_in
    site
    output, status = Open3.capture2e({ "SITE" => "https://localhost:#{@server.port}/private?page=2" }, "node", "chromium.mjs", chdir: OpenidProvider::FOLDER)
    assert status.success?, "#{output}\n#{@server.output}"
    assert_includes output, '"REMOTE_USER":"alice"'
    assert_includes output, "cookie: __Host-"
    assert_includes output, "after the logout: #{@provider.issuer}"
  end

  private

  # The provider and the server see the same time, which the test sets.
  def with_clock(more = "")
    skip "NOT RUN: another time of day: #{SetClock.missing}" if SetClock.missing
    clock = SetClock.new(@folder)
    @provider.stop
    @provider = OpenidProvider.new(trust: authority.file(@folder), env: clock.env)
    site(more, env: clock.env)
    clock
  end

  def refute_signed_in(browser, answer)
    refute_equal "200", answer.code, answer.body
    refute_equal "200", browser.open("/").code
  end

  # A browser at its way back, then the block.
  def on_its_way_back_after(undo)
    @provider.test(undo)
    on_its_way_back.tap { yield }
  end
end
