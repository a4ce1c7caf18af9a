# What a stranger may try with the page cache: pages poisoned by what is in no key, keys joined that are not the same, answers
# split, memory filled.
require_relative "../support/cached_site"

class CacheSecurityTest < Minitest::Test
  include CachedSite

  FRESH = { "cache-control" => "public, max-age=60" }.freeze
  # What the app says of whom and what it was asked for.
  SEEN = %w[host x-forwarded-host x-forwarded-scheme x-forwarded-proto x-forwarded-port x-forwarded-ssl x-forwarded-prefix x-forwarded-server
    forwarded x-original-url x-rewrite-url x-http-method-override x-real-ip x-client-ip true-client-ip x-own].freeze

  def reflecting(fields = FRESH, seen: SEEN, **options)
    site(**options) { |one| [200, fields, [one.method, one.target, *seen.map { |name| "#{name}=#{one[name]}" }].join(" ")] }
  end

  # A page that a stranger had made, and then the one that everybody gets.
  def poisoned(fields, target: "/p#{@p = @p.to_i + 1}", **more)
    evil = client.ask(target, fields, **more)
    [evil, ask(target)]
  end

  STRANGERS = { "X-Forwarded-Host" => "evil.test", "X-Forwarded-Scheme" => "nothttps", "X-Forwarded-Proto" => "evil", "X-Forwarded-Port" => "6666",
    "X-Forwarded-Ssl" => "on", "X-Forwarded-Prefix" => "/evil", "X-Forwarded-Server" => "evil.test", "X-Forwarded-For" => "6.6.6.6",
    "Forwarded" => "host=evil.test;proto=evil", "X-Real-Ip" => "6.6.6.6", "X-Client-Ip" => "6.6.6.6", "True-Client-Ip" => "6.6.6.6" }.freeze

  def test_a_stranger_says_nothing_of_proxies
    reflecting(top: 'trusted_proxies = ["none"]')
    STRANGERS.each do |name, value|
      evil, page = poisoned({ name => value })
      refute_match(/evil|6666|nothttps|6\.6\.6/, evil.body, name)
      refute_match(/evil|6666|nothttps|6\.6\.6/, page.body, name)
    end
  end

  # A proxy may let through what its own client said.
  def test_what_a_trusted_proxy_says_is_in_the_key
    reflecting(seen: SEEN - %w[x-real-ip x-client-ip true-client-ip])
    STRANGERS.each do |name, value|
      _, page = poisoned({ "X-Forwarded-Proto" => "http", name => value })
      refute_match(/evil|6666|nothttps/, page.body, name)
    end
    reflecting
    @client = nil
    poison = { "X-Forwarded-Host" => "shop.test" }
    evil = client.ask("/host", poison, host: "evil.test")
    assert_includes evil.body, "host=shop.test"
    refute_includes ask("/host", poison).body, "evil", "Host beside X-Forwarded-Host"
  end

  # nginx and Varnish pass these on, and no framework of Ruby's believes them; what an app says by them it has to say in Vary.
  def test_fields_that_the_app_names_in_vary_are_in_the_key
    reflecting(FRESH.merge("vary" => "X-Original-URL, X-Rewrite-URL, X-HTTP-Method-Override"))
    { "X-Original-URL" => "/evil", "X-Rewrite-URL" => "/evil", "X-HTTP-Method-Override" => "EVIL" }.each do |name, value|
      evil, page = poisoned({ name => value })
      assert_match(/evil/i, evil.body)
      refute_match(/evil/i, page.body)
    end
  end

  def test_fat_gets_and_heads
    site { |one| [200, FRESH, "#{one.method} #{one.body}"] }
    evil, page = poisoned({}, body: "x=evil")
    assert_equal ["GET x=evil", "fwd=bypass; detail=method", "GET "], [evil.body, status(evil), page.body]
    raw = @server.exchange("GET /fat HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n6\r\nx=evil\r\n0\r\n\r\n")
    assert_includes raw, "GET x=evil"
    assert_equal "GET ", ask("/fat").body
    ask("/head", method: "HEAD")
    assert_equal "GET ", ask("/head").body
  end

  def test_hosts
    site { |one| [200, FRESH, "#{one["host"]} #{calls}"] }
    first = ask("/").body
    assert_equal [first] * 3, %w[SHOP.test shop.test:80 Shop.TEST].map { |host| ask("/", host: host).body }
    refute_equal first, ask("/", host: "shop.test:8080").body
    refute_equal first, ask("/", host: "shop.test.").body
    assert_equal 400, client.ask("http://other.test/", {}, host: "shop.test").status
    assert_equal first, client.ask("http://shop.test/", {}, host: "shop.test").body
    assert_match(/\Aother.test/, client.ask("http://other.test/", {}, host: "other.test").body)
    assert_equal first, ask("/").body
    assert_match(%r{\AHTTP/1.1 400 }, @server.exchange("GET / HTTP/1.1\r\nHost: shop.test\r\nHost: evil.test\r\nConnection: close\r\n\r\n"))
    assert_match(/evil.test/, @server.exchange("GET / HTTP/1.0\r\nHost: evil.test\r\n\r\n"))
    @server.exchange("GET / HTTP/1.0\r\n\r\n")
    assert_equal first, ask("/").body
  end

  # Each of these is another page to HTTP, and each may be another to the app.
  PATHS = %w[/a/b /a//b //a/b /a/./b /a/x/../b /a%2Fb /a%2fb /%61/b /a/%2e/b /a/b/ /a/b? /a/b?x /a/b?x= /a/b?x=1&y=2 /a/b?y=2&x=1 /a/b?&x /A/b
    /a/b;c /a\\b /a/b%00 /a/b%20 /a/b+ /a/b?x=%31 /a/b?X].freeze

  def test_paths_are_never_joined
    site { |one| [200, FRESH, one.target] }
    PATHS.each { |path| assert_equal path, ask(path).body }
    PATHS.each { |path| assert_equal [path, "hit"], ask(path).then { |one| [one.body, words(one)] } }
  end

  def test_cookies_in_another_order_are_others
    site { |one| [200, FRESH.merge("vary" => "cookie"), one["cookie"]] }
    ["a=1; b=2", "b=2; a=1", "a=1;b=2", "a=1; a=2", "a=2; a=1"].each { |cookie| 2.times { assert_equal cookie, ask("/", { "Cookie" => cookie }).body } }
  end

  def test_fields_of_the_connection
    site { |one| [200, FRESH.merge("vary" => "x-own, cookie"), "#{one["x-own"]} #{one["cookie"]}"] }
    evil = client.ask("/", { "Connection" => "x-own", "X-Own" => "de" })
    assert_equal ["de", "de "], [evil.body.strip, ask("/", { "X-Own" => "de" }).body] unless evil.body == " "
    assert_equal "de ", ask("/", { "X-Own" => "de" }).body, "the app has not seen it, and it is in the key"
    client.ask("/", { "Connection" => "cookie", "Cookie" => "a=1" })
    assert_equal " a=1", ask("/", { "Cookie" => "a=1" }).body
    assert_equal [" ", "hit"], 2.times.map { client.ask("/", { "Connection" => "keep-alive" }) }.last.then { |one| [one.body, words(one)] }
  end

  # What the front itself refuses is nobody's page.
  def test_refusals_are_not_kept
    site { |_one| [200, FRESH, "page"] }
    { "GET / HTTP/1.1\r\nHost: shop.test\r\nX-Bad\x01: 1\r\n\r\n" => 400, "GET / HTTP/1.1\r\nHost: shop.test\r\nX-Long: #{"x" * 200_000}\r\n\r\n" => 431,
      "GET /#{"x" * 200_000} HTTP/1.1\r\nHost: shop.test\r\n\r\n" => 414, "GET / HTTP/9.9\r\nHost: shop.test\r\n\r\n" => 505 }.each do |bytes, expected|
      refused = begin
        @server.exchange(bytes)
      rescue Errno::ECONNRESET, Errno::EPIPE
        ""
      end
      assert_match(/\AHTTP\/1.1 (#{expected}|400|431) /, refused) unless refused.empty?
      assert_equal [200, "page"], client.ask("/").then { |one| [one.status, one.body] }
    end
    assert_equal 1, calls
  end

  def test_nothing_of_a_request_splits_an_answer
    site { |one| [200, FRESH.merge("location" => one.target), "x"] }
    ["/%0d%0aset-cookie:%20evil=1", "/?x=%0d%0a%0d%0a%3Cevil%3E", "/%E5%98%8A%E5%98%8Dset-cookie:evil"].each do |target|
      2.times { assert_equal [target, nil], ask(target).then { |one| [one["location"], one["set-cookie"]] } }
    end
    site { |_one, link| link.write("HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nx: a\rb\r\ncontent-length: 1\r\n\r\nx") && nil }
    @client = nil
    2.times { assert_equal [502, nil], client.ask("/").then { |one| [one.status, one["x"]] } }
  end

  def test_methods_do_not_answer_each_other
    site { |one| [200, FRESH, one.method] }
    ask("/", method: "OPTIONS")
    assert_equal "GET", ask("/").body
    assert_equal %w[POST GET], [ask("/", { "X-HTTP-Method-Override" => "GET" }, method: "POST", body: "").body, ask("/").body]
  end

  # Ten times as many bytes as there is room for.
  def test_memory_stays_within_its_budget
    site("compress = false", top: 'cache_size = "8MB"', threads: 1) { |one| [200, FRESH.merge("x-id" => one.target), "#{one.target} ".ljust(one.target[/\d+/].to_i % 40_000 + 100, "x")] }
    400.times { |n| ask("/#{n * 37}") }
    before = @server.private_memory
    4000.times { |n| ask("/#{n * 101 + 7}") }
    # What is beside the budget: the allocator's gaps and buffers, which do not grow with what is pushed through.
    assert_operator @server.private_memory - before, :<, 8_000_000 + 12_000_000
    assert_equal "hit", [ask("/last"), ask("/last")].map { |one| words(one) }.last
  end

  def test_many_bodies_on_their_way_at_once_are_given_back
    site(top: 'cache_size = "8MB"', threads: 1) { |one| [200, FRESH, one.target.ljust(900_000, "x")] }
    before = @server.private_memory
    6.times do |round|
      asked = Array.new(20) { |n| client.send("/#{round}/#{n}") }
      asked.each { |one| one.receive && one.close }
      @clients.clear
    end
    eventually("the memory to be given back") { @server.private_memory - before < 40_000_000 }
  end
end
