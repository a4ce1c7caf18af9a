# The gate of `[[sso]]` in the real server, with a real KDC and curl: what a ticket is good for, and what it must not be used for. It serves plain http
# on loopback, where a cookie is read from the answer as it is.
require "base64"
require "open3"
require_relative "../../e2e/support/asking"
require_relative "../../e2e/support/http2_client"
require_relative "../../e2e/support/rack_routes"
require_relative "../support/kdc"

class GateTest < Minitest::Test
  include Scenario
  include Asking
  include RackRoutes

  HOST = "web.example.test"
  Answer = Struct.new(:status, :fields, :body) do
    def all(name) = fields.scan(/^#{Regexp.escape(name)}: (.*?)\r?$/i).flatten
    def cookie = all("set-cookie").grep_v(/declined/).first&.slice(/\A[^;]+/)
  end

  rack_setup "COUNTS = Hash.new(0)\n"
  rack("/public") { |env| [200, { "cache-control" => "public, max-age=600" }, ["#{env["REMOTE_USER"].inspect} #{COUNTS[env["REMOTE_USER"]] += 1}"]] }
  rack("/page") { |_| [200, { "surrogate-control" => 'content="ESI/1.0"' }, ['<esi:include src="/bobs/part" onerror="continue"/>|<esi:include src="/part"/>']] }
  rack("/waits") { |_| [200, {}, [File.read("waits.fifo")]] }
  rack("/part", "/bobs/part") { |env| [200, {}, ["#{env["PATH_INFO"]} of #{env["REMOTE_USER"]}"]] }
  rack { |env| [200, {}, [[env["REMOTE_USER"], env["AUTH_TYPE"], env["paceline.user"]&.fetch(:mechanism), env["HTTP_AUTHORIZATION"], env["HTTP_COOKIE"]].inspect]] }

  def self.kdc
    @kdc ||= Kdc.new.tap do |kdc|
      Minitest.after_run { kdc.remove }
      %w[alice bob].each { |name| kdc.person(name) }
      kdc.service("HTTP/#{HOST}")
      kdc.start
    end
  end

  def setup
    flunk "missing: #{Kdc.missing.join(" ")}: bin/setup test" if Kdc.missing.any?
    @kdc = self.class.kdc
    @kdc.sign_in("alice")
  end

  def test_a_ticket_signs_in_and_the_cookie_stands_for_it
    gate
    first = visit("/")
    assert_equal [200, '["alice", "Negotiate", "kerberos", nil, nil]'], [first.status, first.body]
    assert_match(/\ANegotiate \S{20,}\z/, first.all("www-authenticate").first, "the server's own token")
    assert_match(/; Path=\/; Secure; HttpOnly; SameSite=Lax\z/, first.all("set-cookie").first)
    again = curl("/", "-H", "Cookie: own=1; #{first.cookie}")
    assert_equal [200, '["alice", "Negotiate", "kerberos", nil, "own=1"]'], [again.status, again.body]
    @server.wait_for(/"GET \/ HTTP.* user=alice/)
    assert_equal 401, curl("/", "-H", "Cookie: #{first.cookie.next}").status
  end

  def test_a_kept_page_is_somebodys_own_and_no_other_cache_may_have_it
    gate
    alice = visit("/public").cookie
    answers = Array.new(2) { curl("/public", "-H", "Cookie: #{alice}") }
    assert_equal ['"alice" 1'] * 2, answers.map(&:body)
    answers.each do |answer|
      assert_match(/; ?hit|hit;/, answer.all("cache-status").first)
      assert_equal ["private, max-age=600"], answer.all("cache-control")
      assert_empty answer.all("set-cookie"), "a kept page brings nobody's session along"
    end
    @kdc.sign_in("bob")
    assert_equal '"bob" 1', visit("/public").body
  end

  # Chrome of a fresh profile asks its first page without one, because it has not read its settings yet: it is asked again soon.
  def test_who_comes_without_a_ticket_is_asked_again_after_ten_seconds
    gate(more: "otherwise = \"app\"")
    marks = curl("/", "-H", "Accept: text/html", "-H", "Sec-Fetch-Mode: navigate", "-H", "Sec-Fetch-Dest: document").all("set-cookie").grep(/declined/)
    assert_equal [10], marks.map { |mark| mark[/Max-Age=(\d+)/, 1].to_i }
  end

  # A browser adds the ticket by itself: another site must not make it change something here.
  def test_another_site_can_not_use_the_ticket
    gate
    forged = ["-X", "POST", "-d", "", "-H", "Sec-Fetch-Site: cross-site"]
    answer = visit("/", *forged)
    assert_equal [403, []], [answer.status, answer.all("www-authenticate")]
    assert_equal 200, visit("/", "-X", "POST", "-d", "", "-H", "Sec-Fetch-Site: same-origin").status
    socket = ["-H", "Sec-Fetch-Site: cross-site", "-H", "Connection: Upgrade", "-H", "Upgrade: websocket"]
    assert_equal 403, visit("/", *socket).status
  end

  def test_a_part_of_a_page_is_no_way_into_another_area
    gate(<<~TOML)
      [[sso]]
      path = "/bobs/*"
      kerberos = { keytab = "#{@kdc.file("http.keytab")}" }
      store = "state/sessions"
      allow = "user:bob"
    TOML
    assert_equal "|/part of alice", visit("/page").body
    assert_equal 403, visit("/bobs/part").status
    @kdc.sign_in("bob")
    assert_equal "/bobs/part of bob|/part of bob", visit("/page").body
  end

  # Somebody who has signed in by one way has not signed in by the other.
  def test_a_part_of_a_page_is_no_way_into_an_area_with_another_way_to_sign_in
    gate(<<~TOML)
      [[sso]]
      path = "/bobs/*"
      kerberos = { keytab = "#{@kdc.file("http.keytab")}" }
      local = "keep"
    TOML
    assert_equal "|/part of alice", visit("/page").body
    assert_match(/\A.bobs.part of alice@/, visit("/bobs/part").body)
    assert_equal "|/part of alice", visit("/page").body
  end

  # NTLM signs in a connection, and HTTP/2 has several requests on one.
  def test_ntlm_has_to_come_by_http_1
    gate(options: ", ntlm = true")
    http2 = Http2Client.new(TCPSocket.new("127.0.0.1", @server.port))
    stream = http2.request({ "authorization" => "Negotiate #{Base64.strict_encode64("NTLMSSP\0\x01\0\0\0".b + ("\0" * 28))}" }, authority: HOST)
    assert_equal [:reset, 0xd], http2.response(stream)
  ensure
    http2&.close
  end

  # Somebody in hundreds of groups has a ticket of tens of kilobytes.
  def test_a_large_ticket_arrives_where_the_settings_allow_it
    token = "Authorization: Negotiate #{Base64.strict_encode64("\x60" * 45_000)}"
    gate
    assert_equal 431, ask("/", token).status
    gate(before: "max_header_bytes = \"96KB\"\nhttp2_header_list = \"96KB\"\n")
    assert_equal 401, ask("/", token).status
    @server.wait_for(/note="sso: malformed"/)
  end

  def test_the_list_of_requests_has_the_name
    gate
    cookie = visit("/").cookie
    File.mkfifo(File.join(@server.dir, "waits.fifo"))
    waiting = Thread.new { curl("/waits", "-H", "Cookie: #{cookie}") }
    File.open(File.join(@server.dir, "waits.fifo"), "w") do |fifo|
      assert_match(/127\.0\.0\.1 alice +GET \/waits$/, command(@server, "requests").first)
      fifo.write("done")
    end
    assert_equal "done", waiting.value.body
  end

  # Two machines with one Redis. Without it nobody knows who somebody is.
  def test_sessions_are_shared_in_redis
    port = TCPServer.open("127.0.0.1", 0) { |socket| socket.addr[1] }
    redis = Process.spawn("redis-server", "--port", port.to_s, "--save", "", "--appendonly", "no", out: File::NULL, err: File::NULL)
    eventually("Redis") { TCPSocket.open("127.0.0.1", port).close || true rescue false }
    store = "redis://127.0.0.1:#{port}/3"
    gate(store: store)
    cookie = visit("/").cookie
    another = -> { @server = serve(@server.dir, env: @kdc.env) }
    another.call
    assert_equal 200, curl("/", "-H", "Cookie: #{cookie}").status
    Process.kill("KILL", redis)
    Process.wait(redis)
    redis = nil
    another.call
    assert_equal 503, curl("/", "-H", "Cookie: #{cookie}").status
    @server.wait_for(/sessions: the sessions of single sign-on can't be reached in Redis/)
  ensure
    redis && Process.kill("KILL", redis) && Process.wait(redis)
  end

  private

  # All paths need a ticket.
  def gate(areas = "", options: "", before: "", store: "state/sessions", more: "")
    # Sessions of a test of their own.
    dir = app("config.ru" => config_ru, "paceline.toml" => <<~TOML)
      #{before}
      #{areas}
      [[sso]]
      kerberos = { keytab = "#{@kdc.file("http.keytab")}"#{options} }
      store = "#{store}"
      #{more}
    TOML
    @server = serve(dir, env: @kdc.env)
  end

  def visit(path, *arguments) = curl(path, "--negotiate", "-u", ":", *arguments)

  def curl(path, *arguments)
    output, status = Open3.capture2e(@kdc.env, "curl", "--silent", "--show-error", "--include", "--max-time", "30", "--noproxy", "*",
      "--connect-to", "#{HOST}:80:127.0.0.1:#{@server.port}", *arguments, "http://#{HOST}#{path}")
    assert status.success?, output
    # Each round's head, then the last one's body.
    parts = output.b.split("\r\n\r\n", -1)
    Answer.new(Integer(parts[-2][/\AHTTP\S+ (\d+)/, 1]), parts[-2], parts[-1])
  end
end
