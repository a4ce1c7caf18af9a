# docs/from-nginx.md: a server is started with each Paceline snippet of the page, and does what its section says.
require "base64"
require "openssl"
require_relative "../support/scenario"
require_relative "../support/asking"
require_relative "../support/certificates"
require_relative "../support/origin"

class FromNginxTest < Minitest::Test
  include Scenario
  include Asking

  PAGE = File.read(File.join(CHECKOUT, "docs/from-nginx.md"))
  # Sections by their headings.
  SECTIONS = PAGE.split(/^## /).drop(1).to_h { |section| section.split("\n", 2) }
  APP = <<~'RUBY'.freeze
    run lambda { |env|
      count = File.write("#{__dir__}/calls", "x", mode: "a") && File.size("#{__dir__}/calls")
      fields = { "content-type" => "text/html", "x-powered-by" => "rack", "cache-control" => "max-age=0, private" }
      [200, fields, ["#{env["REMOTE_ADDR"]} call #{count} #{env["rack.input"]&.read.to_s.bytesize} bytes"]]
    }
  RUBY
  # Of "password", by htpasswd -nbBC 4.
  STAFF = "alice:$2y$04$sSViL2OFEAjZyEHOBASyAOxgRdqX/SO3N1Ok4MEEZ4H6bFxiOz7u6\n".freeze

  def self.promises(heading, &block)
    (@promised ||= []) << heading
    define_method("test_#{heading.downcase.gsub(/\W+/, "_")}", &block)
  end

  def self.promised = @promised

  def teardown
    super
    Array(@origins).each(&:close)
  end

  # A server with the section's snippet; its paths are below the test's folder, and its listener is a free port.
  def start(heading, files = {}, *arguments, change: ->(toml) { toml }, **options)
    toml = change.(SECTIONS.fetch(heading)[/^```toml\n(.*?)^```/m, 1])
    @dir = app
    toml = toml.gsub(%r{"/(srv|etc)/}) { "\"#{@dir}/#{$1}/" }
    write(@dir, { "config.ru" => APP, "public/file.txt" => "a file", "paceline.toml" => toml }.merge(files))
    @server = serve(@dir, *arguments, **options)
  end

  def from(address) = "X-Forwarded-For: #{address}"

  promises "An application with its files" do
    start("An application with its files", { "srv/shop/current/config.ru" => APP, "srv/shop/current/public/file.txt" => "a file" })
    assert_equal ["a file", "127.0.0.1 call 1 0 bytes"], %w[/file.txt /].map { |path| ask(path, "Host: shop.example").body }
  end

  promises "TLS" do
    authority = Authority.new
    certificate, key = authority.issue("shop.example")
    start("TLS", { "etc/ssl/shop.pem" => certificate, "etc/ssl/shop.key" => key }, "-b", "https://127.0.0.1:0", port: false)
    port = @server.wait_for(/Listening on https:\/\/\S+:(\d+)/)[1]
    answer = authority.connect(Integer(port), "shop.example") do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")
      socket.read
    end
    assert_match(/\AHTTP\/1.1 200 /, answer)
  end

  promises "From http to https" do
    start("From http to https")
    answer = ask("/a?b", "Host: shop.example")
    assert_equal [301, "https://shop.example/a?b"], [answer.status, answer["location"]]
    safe = ask("/", "Host: shop.example", "X-Forwarded-Proto: https")
    assert_equal [200, "max-age=31536000"], [safe.status, safe["strict-transport-security"]]
  end

  promises "One name for a site" do
    start("One name for a site")
    answer = ask("/a?b=c", "Host: www.shop.example")
    assert_equal [301, "https://shop.example/a?b=c"], [answer.status, answer["location"]]
    assert_equal 200, ask("/", "Host: shop.example").status
  end

  def test_one_name_without_a_host
    start("One name for a site", change: ->(toml) { toml.sub(/^host.*\n/, "") })
    assert_equal "https://shop.example/a", ask("/a", "Host: other.example")["location"]
    assert_equal "https://shop.example/a", ask("/a", "Host: shop.example")["location"]
    assert_equal 200, ask("/a", "Host: shop.example", "X-Forwarded-Proto: https").status
  end

  promises "Moved paths" do
    start("Moved paths")
    moved = %w[/about-us /blog/2026/11?page=2 /sale /articles/1].map { |path| ask(path).then { |answer| [answer.status, answer["location"]] } }
    assert_equal [[301, "/about"], [301, "/articles/2026/11?page=2"], [302, "/sales/winter"], [200, nil]], moved
    assert_equal 308, ask("/about-us", "Content-Length: 0", method: "POST").status
  end

  promises "Response headers" do
    start("Response headers", { "public/fonts/a.woff2" => "font" })
    fields = %w[x-frame-options x-powered-by access-control-allow-origin]
    assert_equal ["DENY", nil, nil], ask("/").then { |answer| fields.map { |name| answer[name] } }
    assert_equal ["DENY", nil, "*"], ask("/fonts/a.woff2").then { |answer| fields.map { |name| answer[name] } }
  end

  promises "A password for a staging site" do
    start("A password for a staging site", { "etc/paceline/staging.htpasswd" => STAFF })
    alice = "Authorization: Basic #{Base64.strict_encode64("alice:password")}"
    answer = ask("/file.txt")
    assert_equal [401, 'Basic realm="Staging", charset="UTF-8"'], [answer.status, answer["www-authenticate"]]
    assert_equal [200, 200, 200], [ask("/up").status, ask("/", alice).status, ask("/file.txt", alice).status]
  end

  promises "Only from some addresses" do
    start("Only from some addresses")
    status = ->(path, address) { ask(path, from(address)).status }
    assert_equal [200, 200, 403], %w[10.1.2.3 192.0.2.7 192.0.2.8].map { |address| status.("/admin/users", address) }
    assert_equal [200, 403], %w[192.0.2.8 203.0.113.66].map { |address| status.("/", address) }
  end

  promises "The client's address behind a load balancer" do
    start("The client's address behind a load balancer")
    assert_match(/\A192\.0\.2\.9 /, ask("/", from("192.0.2.9, 10.0.0.5")).body)
  end

  promises "Size of uploads" do
    start("Size of uploads")
    post = ->(path, size, sent = size) { @server.wire("POST #{path} HTTP/1.1\r\nHost: a\r\nContent-Length: #{size}\r\nConnection: close\r\n\r\n#{"x" * sent}").status }
    size = (1 << 20) + 1
    # What is too large is refused before it comes.
    assert_equal [413, 200], [post.("/a", size, 0), post.("/uploads/a", size)]
  end

  promises "Requests per second" do
    start("Requests per second")
    statuses = Array.new(30) { ask("/login").status }
    assert_equal [200] * 10, statuses.first(10)
    assert_includes statuses, 429
    assert_equal 200, ask("/").status
  end

  promises "Cached pages" do
    start("Cached pages")
    pages = Array.new(2) { ask("/news/1") }
    assert_equal ["127.0.0.1 call 1 0 bytes"] * 2, pages.map(&:body)
    assert_includes pages.last["cache-status"], "hit"
    assert_includes ask("/other").body, "call 2"
  end

  promises "A folder of files" do
    start("A folder of files", { "srv/docs/guide.html" => "a guide" }, ready: false)
    answer = ask("/guide.html", "Host: docs.example")
    assert_equal [200, "a guide", 404], [answer.status, answer.body, ask("/gone", "Host: docs.example").status]
    assert_includes answer["cache-control"], "max-age=3600"
  end

  promises "Another HTTP server" do
    origin = Origin.new { |link, _| link.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwiki") if link.head }
    (@origins ||= []) << origin
    start("Another HTTP server", change: ->(toml) { toml.sub("http://127.0.0.1:8000", origin.url) }, ready: false)
    assert_equal "wiki", ask("/", "Host: wiki.example").body
  end

  def test_closed_for_maintenance
    start("An application with its files", { "srv/shop/current/config.ru" => APP }, env: { "XDG_STATE_HOME" => app })
    SECTIONS.fetch("Closed for maintenance").scan(/^    \$ paceline (maintenance (?:on|off))\n    (.*)$/).zip([503, 200]) do |(line, told), status|
      assert_equal told.sub("shop", "shop.example"), command(@server, *line.split)[0].chomp
      assert_equal status, ask("/", "Host: shop.example").status
    end
  end

  def test_each_snippet_is_tried
    with_snippet = SECTIONS.select { |_, section| section.include?("```toml") }.keys
    assert_equal with_snippet, self.class.promised
    assert(with_snippet.all? { |heading| SECTIONS[heading].include?("```nginx") })
  end
end
