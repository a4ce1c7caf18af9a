# Nobody is somebody else by writing so: no spelling of a header field that says who a visitor is reaches an application or an upstream.
require_relative "../../e2e/support/http2_client"
require_relative "../../e2e/support/origin"
require_relative "../support/realm"

class ServerIdentityTest < Minitest::Test
  include Front
  include Realm

  NAMES = %w[
    Remote-User X-Remote-User X-Forwarded-User X-Forwarded-Groups X-Forwarded-Email X-Forwarded-Preferred-Username
    X-Auth-Request-User X-Auth-Request-Groups X-Auth-Request-Email X-Auth-User X-Auth-Username X-Auth-Groups
  ].freeze
  # Each name as it is written here, and as Rack, CGI and their like would read the same.
  WAYS = [:itself, :downcase, :upcase, :swapcase, ->(name) { name.tr("-", "_") }, ->(name) { name.tr("-", "_").upcase }, ->(name) { name.sub("-", "_") },
    ->(name) { name.downcase.tr("-", "_") }].freeze
  SPELLINGS = NAMES.flat_map { |name| WAYS.map { |way| way.respond_to?(:call) ? way.call(name) : name.public_send(way) } }.uniq.freeze
  # What is no field at all, or not of that name for a strict reader and perhaps for a lenient one.
  MALFORMED = ["Remote-User ", " Remote-User", "Remote-User\t", "\tRemote-User", "Remote-User\v", "Remote User", "Remote-User\0", "Remote\u2010User", "Remote-User\r",
    "X-A: b\rRemote-User", "X-A: b\nRemote-User"].freeze

  def test_the_table_is_long_enough
    assert_operator SPELLINGS.size, :>=, 60
  end

  def test_no_spelling_arrives_by_http_1
    kerberos
    cookie = signed_in
    SPELLINGS.each { |name| assert_nobody_else ask("#{name}: mallory\r\n", cookie), name }
    assert_nobody_else ask(SPELLINGS.map { |name| "#{name}: mallory\r\n" }.first(60).join, cookie), "all at once"
    NAMES.each do |name|
      assert_nobody_else ask("#{name}: alice\r\n#{name}: mallory\r\n", cookie), "#{name} twice"
      assert_nobody_else ask("#{name}: alice\r\n mallory\r\n", cookie), "#{name}, folded"
      assert_nobody_else ask("#{name}: mallory\r\nConnection: close, #{name}\r\n", cookie), "#{name}, named by Connection"
    end
  end

  def test_no_malformed_field_arrives
    kerberos
    cookie = signed_in
    MALFORMED.each { |name| assert_nobody_else ask("#{name}: mallory\r\n", cookie), name.inspect }
  end

  def test_no_spelling_arrives_from_somebody_who_is_not_signed_in
    front("[[sso]]\nkerberos = { keytab = \"#{@keytab}\" }\nexcept = [\"/open\"]\notherwise = \"app\"\nintranet = [\"10.0.0.0/8\"]\n", env: @kdc.env)
    SPELLINGS.each do |name|
      %w[/open /].each do |path|
        shown = ask("#{name}: mallory\r\n", nil, path: path)
        assert_nobody_else shown, "#{path} #{name}"
        assert_nil shown[1]["REMOTE_USER"], name
        assert_nil shown[1]["paceline.user"], name
      end
    end
  end

  def test_no_spelling_arrives_by_http_2
    kerberos
    cookie = signed_in
    http2 = Http2Client.new(authority.connect(@server.port, HOST, alpn: ["h2"]))
    SPELLINGS.map(&:downcase).uniq.each do |name|
      status, body = http2.response(http2.request({ "cookie" => cookie, name => "mallory" }, scheme: "https", authority: "#{HOST}:#{@server.port}"))
      assert_equal 200, status, name
      refute_includes body, "mallory", name
      assert_includes body, '"REMOTE_USER":"alice"'
    end
  ensure
    http2&.close
  end

  def test_no_trailer_arrives
    kerberos
    cookie = signed_in
    NAMES.each do |name|
      body = "Transfer-Encoding: chunked\r\nTrailer: #{name}\r\n\r\n1\r\nx\r\n0\r\n#{name}: mallory\r\n"
      assert_nobody_else ask(body, cookie, method: "POST"), name
    end
    http2 = Http2Client.new(authority.connect(@server.port, HOST, alpn: ["h2"]))
    NAMES.map(&:downcase).each do |name|
      stream = http2.request({ "cookie" => cookie, "trailer" => name }, method: "POST", scheme: "https", authority: "#{HOST}:#{@server.port}", end_stream: false)
      http2.data(stream, "x")
      http2.frame(Http2Client::HEADERS, Http2Client::END_HEADERS | Http2Client::END_STREAM, stream, http2.encode(name => "mallory"))
      _, answer = http2.response(stream)
      refute_includes answer.to_s, "mallory", name
    end
  ensure
    http2&.close
  end

  # An upstream is told by fields, and by no others than the server's own.
  def test_an_upstream_is_told_by_the_server_alone
    heads = Queue.new
    origin = Origin.new do |link, _|
      while (head = link.head)
        link.body(head)
        heads << head
        link.answer
      end
    end
    front("[[site]]\nhost = \"#{HOST}\"\nupstream = \"#{origin.url}\"\n[[site.sso]]\nkerberos = { keytab = \"#{@keytab}\" }\notherwise = \"refuse\"\n", env: @kdc.env, ready: false)
    cookie = signed_in
    take(heads)
    SPELLINGS.each do |name|
      ask("#{name}: mallory\r\n", cookie)
      head = take(heads)
      refute_includes head.bytes, "mallory", name
      assert_equal ["alice"], head.all("x-forwarded-user"), name
      assert_equal ["alice"], head.all("remote-user"), name
    end
    ask("Authorization: Basic bWFsbG9yeTp4\r\n", cookie)
    head = take(heads)
    refute_includes head["cookie"].to_s, cookie, "the session is not the upstream's business"
  ensure
    origin&.close
  end

  def test_an_upstream_is_told_nothing_of_nobody
    heads = Queue.new
    origin = Origin.new do |link, _|
      while (head = link.head)
        heads << head
        link.answer
      end
    end
    front("[[site]]\nhost = \"#{HOST}\"\nupstream = \"#{origin.url}\"\n[[site.sso]]\nkerberos = { keytab = \"#{@keytab}\" }\nexcept = [\"/open\"]\notherwise = \"refuse\"\n", env: @kdc.env, ready: false)
    SPELLINGS.each do |name|
      ask("#{name}: mallory\r\n", nil, path: "/open")
      head = take(heads)
      refute_includes head.bytes, "mallory", name
      assert_empty head.names & %w[remote-user x-forwarded-user x-forwarded-groups], name
    end
  ensure
    origin&.close
  end

  private

  def signed_in
    browser = browser(ticket: true)
    assert_equal "200", browser.get("/").code, @server.output
    browser.cookies.map { |pair| pair.join("=") }.join("; ")
  end

  # [the whole answer, what the application was told if it was asked].
  def ask(fields, cookie, path: "/", method: "GET")
    cookie &&= "Cookie: #{cookie}\r\n"
    answer = raw("#{method} #{path} HTTP/1.1\r\nHost: #{HOST}:#{@server.port}\r\n#{cookie}#{"Connection: close\r\n" unless fields.include?("Connection:")}#{fields}\r\n".b)
    [answer, (JSON.parse(answer[/\{.*\}/m]) if answer.start_with?("HTTP/1.1 200") && answer.include?("json"))]
  end

  def assert_nobody_else(shown, what)
    answer, told = shown
    refute_includes answer, "mallory", what
    return assert_match(/\AHTTP\/1\.1 400 /, answer, what) unless told
    assert_includes ["alice", nil], told["REMOTE_USER"], what
  end
end
