# Which paths are protected, and all that lies behind them: files, cached pages, fragments, streams, sockets. Nothing is found by another spelling of a path.
require_relative "../../e2e/support/http2_client"
require_relative "../support/ldap"
require_relative "../support/realm"

class ServerAreasTest < Minitest::Test
  include Front
  include Realm
  include Ldap

  # Spellings of paths that lie in the protected area, and look as if they lay in the open one, /up and /assets/*.
  TRICKS = %w[
    /up/../secret /up/..%2fsecret /up/%2e%2e/secret /up/.%2e/secret /up/%2E%2E%2Fsecret /up/..;/secret /up;/../secret /up/./../secret /up//../secret
    /assets/../secret /assets/%2e%2e/secret /assets/..%2fsecret /assets/x/../../secret /assets/%2e%2e%2fsecret /assets/..%5csecret /assets/%5c../secret
    /assets/..\\secret /assets/%252e%252e/secret //secret /./secret /.//secret ///secret /secret/ /secret/. /SECRET /secret%00/../../assets/x
    /secret?/../assets/x /secret%3f/assets/x /secret;/assets/x /secret/..%2f..%2fassets/%2e%2e/secret /%73ecret /%2fsecret /assets%2f..%2fsecret
    /up%2f..%2fsecret /up/%2e%2e;/secret /upx /up.html/secret /assetsx
  ].freeze

  def site(more = "", **options)
    front(<<~TOML, env: @kdc.env, **options)
      [[sso]]
      path = "/*"
      except = ["/up", "/assets/*"]
      kerberos = { keytab = "#{@keytab}" }
      otherwise = "refuse"
      #{more}
    TOML
  end

  def test_what_is_excepted_is_open_and_nobody_is_signed_in_there
    site
    %w[/up /assets/x.css /up?a=/secret].each do |path|
      answer = browser.get(path)
      assert_equal "200", answer.code, path
      assert_nil told(answer)["REMOTE_USER"], path
    end
    %w[/ /secret /other].each { |path| assert_equal "401", browser.get(path).code, path }
  end

  def test_no_spelling_of_a_path_leads_around_the_gate
    site
    TRICKS.each do |path|
      status = raw("GET #{path} HTTP/1.1\r\nHost: #{HOST}\r\nConnection: close\r\n\r\n")[/\AHTTP\/1\.1 (\d+)/, 1]
      assert_includes %w[401 400 404 403], status, path
    end
  end

  def test_no_spelling_of_a_target_leads_around_the_gate
    site
    ["GET https://#{HOST}/secret", "GET http://#{HOST}:80/secret", "POST /secret", "HEAD /secret", "OPTIONS /secret", "PROPFIND /secret", "get /secret"].each do |line|
      status = raw("#{line} HTTP/1.1\r\nHost: #{HOST}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")[/\AHTTP\/1\.1 (\d+)/, 1]
      assert_includes %w[401 400 403 405 421 501], status, line
    end
    assert_equal "401", raw("GET /secret HTTP/1.0\r\n\r\n")[/\AHTTP\/1\.[01] (\d+)/, 1]
  end

  def test_files_are_protected
    site(files: { "public/secret.txt" => "for those inside\n", "public/assets/open.txt" => "for all\n", "public/index.html" => "home" })
    %w[/secret.txt /secret.txt?x /index.html /assets/../secret.txt /assets/%2e%2e/secret.txt].each do |path|
      answer = raw("GET #{path} HTTP/1.1\r\nHost: #{HOST}\r\nConnection: close\r\n\r\n")
      refute_includes answer, "for those inside", path
      refute_includes answer, "\r\n\r\nhome", path
    end
    answer = browser.get("/assets/open.txt")
    assert_equal ["200", "for all\n"], [answer.code, answer.body]
    answer = browser(ticket: true).get("/secret.txt")
    assert_equal ["200", "for those inside\n"], [answer.code, answer.body]
    assert_match(/private|no-store/, answer["cache-control"])
    conditional = { "If-None-Match" => answer["etag"], "If-Modified-Since" => answer["last-modified"], "Range" => "bytes=0-3" }.compact
    assert_equal "401", browser.get("/secret.txt", conditional).code
  end

  # The application says that all may have its page, and the site's rules say so, too.
  def test_a_cached_page_goes_to_nobody_else
    site("[[cache]]\npath = \"/*\"\nttl = \"10m\"\nignore_cookies = []")
    alice = browser(ticket: true)
    2.times { assert_match(/\Aalice /, alice.get("/cached").body) }
    @kdc.sign_in("bob")
    bob = browser(ticket: true)
    2.times { assert_match(/\Abob /, bob.get("/cached").body) }
    answer = browser.get("/cached")
    assert_equal "401", answer.code
    refute_match(/alice|bob/, answer.body)
    assert_match(/\Aalice /, alice.get("/cached").body)
  end

  def test_a_page_that_is_stored_for_somebody_is_theirs_alone
    site
    alice = browser(ticket: true)
    assert_equal ["alice 1", "alice 1"], Array.new(2) { alice.get("/cached").body }
    @kdc.sign_in("bob")
    bob = browser(ticket: true)
    assert_equal ["bob 1", "bob 1"], Array.new(2) { bob.get("/cached").body }
    assert_match(/private/, bob.get("/cached")["cache-control"])
    refute_match(/alice|bob/, browser.get("/cached").body)
    assert_equal "alice 1", alice.get("/cached").body
  end

  # A page that was stored on disk before a restart, too.
  def test_a_page_on_disk_goes_to_nobody_else
    site(before: "cache_disk = \"32MB\"\n")
    alice = browser(ticket: true)
    2.times { assert_equal "alice 1", alice.get("/cached").body }
    @server.stop
    serve_front(@server.dir, env: @kdc.env)
    @kdc.sign_in("bob")
    assert_match(/\Abob /, browser(ticket: true).get("/cached").body)
    assert_equal "401", browser.get("/cached").code
  end

  # Twenty people miss the page at the same time.
  def test_misses_of_several_people_are_not_one_request
    site("[[cache]]\npath = \"/*\"\nttl = \"10m\"\nignore_cookies = []")
    alice = browser(ticket: true).tap { |browser| browser.get("/") }
    @kdc.sign_in("bob")
    bob = browser(ticket: true).tap { |browser| browser.get("/") }
    seen = Array.new(20) do |n|
      Thread.new do
        who = n.even? ? alice : bob
        [n.even? ? "alice" : "bob", Browser.new("https://#{HOST}:#{@server.port}", authority: @authority_file, fields: { "Cookie" => who.cookies.map { |pair| pair.join("=") }.join("; ") }).get("/cached").body.to_s[/\A\w+/]]
      end
    end.map(&:value)
    assert(seen.all? { |who, body| who == body }, seen.inspect)
  end

  def test_fragments_are_for_the_pages_visitor
    site(before: "esi = true\n")
    assert_equal "<p>alice</p>", browser(ticket: true).get("/fragments").body
    @kdc.sign_in("bob")
    assert_equal "<p>bob</p>", browser(ticket: true).get("/fragments").body
  end

  def test_a_stream_of_events_is_protected
    site
    assert_equal "401", browser.get("/events", "Accept" => "text/event-stream").code
    assert_equal "data: alice\n\ndata: end\n\n", browser(ticket: true).get("/events", "Accept" => "text/event-stream").body
  end

  def test_a_socket_is_protected
    site
    fields = "Host: #{HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    authority.connect(@server.port, HOST) do |io|
      io.write("GET /socket HTTP/1.1\r\n#{fields}\r\n")
      assert_match(/\AHTTP\/1.1 401/, io.gets)
    end
    browser = browser(ticket: true)
    browser.get("/")
    authority.connect(@server.port, HOST) do |io|
      io.write("GET /socket HTTP/1.1\r\n#{fields}Cookie: #{browser.cookies.first.join("=")}\r\n\r\n")
      answer = Timeout.timeout(PATIENCE) { io.read }
      assert_match(/\AHTTP\/1.1 101.*\r\n\r\nalice\n\z/m, answer)
    end
  end

  def test_by_http_2_paths_are_protected_as_well
    site(files: { "public/secret.txt" => "for those inside\n" })
    socket = authority.connect(@server.port, HOST, alpn: ["h2"])
    http2 = Http2Client.new(socket)
    %w[/secret /up/../secret /up/%2e%2e/secret /assets/..%2fsecret.txt //secret /secret.txt].each do |path|
      status, body = http2.response(http2.request({}, path: path, scheme: "https", authority: "#{HOST}:#{@server.port}"))
      assert_includes [401, 400, 403, 404], status, path
      refute_includes body.to_s, "for those inside", path
    end
  ensure
    http2&.close
  end

  def test_without_a_ticket_the_application_has_its_own_login
    front("[[sso]]\nkerberos = { keytab = \"#{@keytab}\" }\notherwise = \"app\"\nintranet = [\"10.0.0.0/8\"]\n", env: @kdc.env)
    answer = browser.open("/")
    assert_equal "200", answer.code
    assert_nil told(answer)["REMOTE_USER"]
    answer = browser.open("/own-login")
    assert_equal ["401", 'Basic realm="the application"'], [answer.code, answer["www-authenticate"]]
  end

  # A browser without a ticket shows the page of the 401, and goes on from it by itself; from then on it is not asked again.
  def test_a_browser_without_a_ticket_goes_on_to_the_applications_login
    front("[[sso]]\nkerberos = { keytab = \"#{@keytab}\" }\notherwise = \"app\"\n", env: @kdc.env)
    browser = browser()
    answer = browser.open("/login?from=%2Fa")
    assert_equal ["401", ["Negotiate"]], [answer.code, answer.get_fields("www-authenticate")]
    answer = browser.follow(browser.open(answer["refresh"][/url=(\S+)/, 1]))
    assert_equal "200", answer.code
    assert_nil told(answer)["REMOTE_USER"]
    assert_equal "/login", told(answer)["PATH_INFO"]
    assert_equal "200", browser.open("/").code
    assert_signed_in "alice", browser(ticket: true).open("/")
  end

  # A browser that is offered both asks for a password, so only those in the intranet are offered tickets.
  def test_tickets_are_offered_only_in_the_intranet
    passwords = "[[sso]]\nkerberos = { keytab = \"#{@keytab}\" }\nbasic = #{ldap_table}\notherwise = \"basic\"\n"
    front("#{passwords}intranet = [\"10.0.0.0/8\"]\n", env: @kdc.env)
    answer = browser.open("/")
    assert_equal ["Basic"], answer.get_fields("www-authenticate").map { |challenge| challenge[/\A\w+/] }
    front("#{passwords}intranet = [\"127.0.0.0/8\"]\n", env: @kdc.env)
    assert_includes browser.open("/").get_fields("www-authenticate"), "Negotiate"
    assert_signed_in "alice", browser(ticket: true).open("/")
    assert_signed_in "bob", browser.open("/", basic("bob", Slapd::PASSWORD))
  end

  def test_who_has_no_ticket_is_refused_with_a_page
    site
    answer = browser.open("/")
    assert_equal "401", answer.code
    assert_includes answer["content-type"], "html"
    assert_match(/<html/i, answer.body)
  end

  def test_each_area_has_its_own_rules
    front(<<~TOML, env: @kdc.env)
      [[sso]]
      path = ["/staff", "/staff/*"]
      kerberos = { keytab = "#{@keytab}" }
      otherwise = "refuse"
      allow = ["user:bob"]
      [[sso]]
      path = "/intranet/*"
      kerberos = { keytab = "#{@keytab}" }
      otherwise = "refuse"
      allow = ["realm:EXAMPLE.TEST"]
    TOML
    assert_equal "200", browser.get("/").code, "no area"
    assert_equal "403", browser(ticket: true).get("/staff/x").code
    assert_signed_in "alice", browser(ticket: true).get("/intranet/x")
    @kdc.sign_in("bob")
    assert_signed_in "bob", browser(ticket: true).get("/staff")
  end

  def test_a_site_has_areas_of_its_own
    front(<<~TOML, env: @kdc.env, files: { "open/config.ru" => APP })
      [[site]]
      host = "#{HOST}"
      root = "."
      [[site.sso]]
      kerberos = { keytab = "#{@keytab}" }
      otherwise = "refuse"
      [[site]]
      host = "localhost"
      root = "open"
    TOML
    assert_equal "401", browser.get("/").code
    assert_signed_in "alice", browser(ticket: true).get("/")
    assert_equal "200", browser(host: "localhost").get("/").code
  end
end
