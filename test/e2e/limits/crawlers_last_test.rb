# `crawlers = "last"`: visitors are served first, crawlers are refused first, and who is taken for one.
require_relative "../support/scenario"
require_relative "../support/asking"
require_relative "../support/wire"

class CrawlersTest < Minitest::Test
  include Scenario
  include Asking

  APP = <<~'RUBY'
    $order = []
    run lambda { |env|
      path = env["PATH_INFO"]
      next [200, { "content-type" => "text/plain" }, [$order.join(" ")]] if path == "/order"
      if path.include?("hold")
        File.write("entered", "in")
        File.read(path.delete_prefix("/"))
      end
      $order << path
      [200, { "content-type" => "text/html" }, ["page"]]
    }
  RUBY
  GOOGLEBOT = "User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)".freeze
  FIREFOX = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0".freeze

  def start(toml = 'crawlers = "last"', *arguments, threads: 1, files: {})
    @dir = app({ "config.ru" => APP, "paceline.toml" => toml }.merge(files))
    @server = serve(@dir, "-t", threads.to_s, *arguments)
    @entered = barrier(@dir, "entered")
  end

  # A visitor's request that holds the only thread until its gate opens.
  def hold
    @gate = barrier(@dir, "hold")
    @held = open_request("/hold", FIREFOX)
    @entered.wait
  end

  # Lets it go. What it was answered, and what these requests are.
  def release(*sockets)
    @gate.open
    [@held, *sockets].map { |socket| Wire.response(socket).status }
  end

  def site = command_json(@server, "status", "--json")["sites"].values.first

  # Until this many visitors wait, and this many crawlers.
  def waiting(visitors, crawlers)
    eventually("#{visitors} visitors and #{crawlers} crawlers to wait") do
      site.then { |site| [site["queue"]["waiting"], site["crawlers"]["waiting"]] == [visitors, crawlers] }
    end
  end

  def order = Wire.response(open_request("/order", FIREFOX)).body.split

  # The line of the access log for a path.
  def line(path) = @server.wait_for(%r{^.*"GET #{Regexp.escape(path)} HTTP/1.1".*$})[0]

  def test_visitors_that_came_later_are_served_first
    start
    hold
    crawler = open_request("/crawler", GOOGLEBOT)
    waiting(0, 1)
    visitors = queue_requests(*%w[/1 /2 /3], fields: [FIREFOX])
    waiting(3, 1)
    assert_equal [200] * 5, release(crawler, *visitors)
    assert_equal %w[/hold /1 /2 /3 /crawler], order
    assert_match(/ crawler=name/, line("/crawler"))
    refute_match(/crawler=/, line("/1"))
  end

  def test_without_the_setting_nobody_is_told_apart
    start("")
    hold
    crawler = open_request("/crawler", GOOGLEBOT)
    eventually("it to wait") { site["queue"]["waiting"] == 1 }
    visitor = open_request("/1", FIREFOX)
    eventually("both to wait") { site["queue"]["waiting"] == 2 }
    assert_equal [200] * 3, release(crawler, visitor)
    assert_equal %w[/hold /crawler /1], order
    assert_nil site["crawlers"]
    refute_match(/crawler=/, line("/crawler"))
  end

  def test_crawlers_are_refused_long_before_visitors
    start("crawlers = \"last\"\nqueue_max = 20")
    hold
    crawlers = %w[/a /b].map.with_index(1) { |path, nth| open_request(path, GOOGLEBOT).tap { waiting(0, nth) } }
    refused = Wire.response(open_request("/c", GOOGLEBOT))
    assert_equal [503, "30"], [refused.status, refused["retry-after"]]
    assert_match(/ 503 .* crawler=name .*note="crawler refused: queue full"/, line("/c"))

    # What is there for crawlers, and a list that spares many requests, is not.
    crawlers << open_request("/sitemap.xml", GOOGLEBOT)
    waiting(0, 3)
    robots = open_request("/robots.txt", GOOGLEBOT)
    waiting(1, 3)
    visitors = queue_requests(*%w[/1 /2], fields: [FIREFOX])
    waiting(3, 3)
    assert_equal [200] * 7, release(robots, *visitors, *crawlers)
    assert_equal %w[/hold /robots.txt /1 /2 /a /b /sitemap.xml], order
    assert_equal [1, 3], site["crawlers"]["counts"].values_at("refused", "answered")
  end

  def test_a_crawler_waits_for_a_third_of_the_time
    start("crawlers = \"last\"\nqueue_timeout = \"1500ms\"")
    hold
    refused = Wire.response(open_request("/late", GOOGLEBOT))
    assert_equal [503, "30"], [refused.status, refused["retry-after"]]
    assert_match(/note="crawler refused: no idle worker"/, line("/late"))
    assert_equal [200], release
  end

  # Three threads: one has a crawler's request in hand, and no other crawler gets one.
  def test_visitors_have_the_other_threads
    start(threads: 3)
    @gate = barrier(@dir, "hold")
    @held = open_request("/hold", GOOGLEBOT)
    @entered.wait
    crawler = open_request("/crawler", GOOGLEBOT)
    waiting(0, 1)
    20.times { |number| assert_equal 200, Wire.response(open_request("/#{number}", FIREFOX)).status }
    waiting(0, 1)
    assert_equal [200, 200], release(crawler)
    assert_equal "/crawler", order.last
  end

  def test_files_are_for_all
    start("crawlers = \"last\"\nqueue_max = 0", files: { "public/robots.txt" => "all", "public/about.html" => "about" })
    hold
    %w[/robots.txt /about].each { |path| assert_equal 200, Wire.response(open_request(path, GOOGLEBOT)).status }
    assert_equal 503, Wire.response(open_request("/x", GOOGLEBOT)).status
    assert_equal [200], release
  end

  def test_a_person_is_none_whatever_the_browser_is_called
    start
    { "/phone" => ["User-Agent: Mozilla/5.0 (Linux; Android 9; CUBOT X19) Chrome/109.0 Mobile Safari/537.36"],
      "/person" => ["User-Agent: Bot Lover's Browser (bot)", "Cookie: _session=1", "Sec-Fetch-Mode: navigate"],
      "/account" => ["User-Agent: our-import-bot/1.0", "Authorization: Bearer secret"],
      "/monitor" => ["User-Agent: Mozilla/5.0+(compatible; UptimeRobot/2.0)"] }.each do |path, fields|
      assert_equal 200, ask(path, *fields).status
      refute_match(/crawler=/, line(path))
    end
    ask("/cookie", GOOGLEBOT, "Cookie: _session=1")
    assert_match(/crawler=name/, line("/cookie"))
  end

  # Addresses of their own, as a trusted proxy says.
  def crawl(address, prefix, *fields, count: 60)
    @server.connect do |socket|
      count.times do |number|
        socket.write(Wire.request("/#{prefix}/#{number}", "X-Forwarded-For: #{address}", *fields))
        Wire.response(socket)
      end
    end
  end

  def test_by_what_an_address_does
    start("crawlers = \"last\"\ncrawlers_pages = 10", files: { "public/shop.css" => "a{}" })
    crawl("192.0.2.1", "fast", FIREFOX)
    assert_match(/192\.0\.2\.1 .* crawler=behaviour/, line("/fast/59"))
    refute_match(/crawler=/, line("/fast/0"))

    crawl("192.0.2.2", "cookies", FIREFOX, "Cookie: a=b")
    crawl("192.0.2.3", "secure", FIREFOX, "Sec-Fetch-Mode: navigate")
    ask("/shop.css", "X-Forwarded-For: 192.0.2.4")
    crawl("192.0.2.4", "assets", FIREFOX)
    crawl("192.0.2.5", "few", FIREFOX, count: 5)
    %w[/cookies/59 /secure/59 /assets/59 /few/4].each { |path| refute_match(/crawler=/, line(path)) }

    # A browser shows itself at the first address.
    ask("/login", FIREFOX, "X-Forwarded-For: 192.0.2.1", "Cookie: a=b")
    crawl("192.0.2.1", "excused", FIREFOX, count: 3)
    refute_match(/crawler=/, line("/excused/2"))
  end

  def test_pages_can_be_left_out_of_account
    start("crawlers = \"last\"\ncrawlers_pages = 0")
    crawl("192.0.2.1", "fast", FIREFOX)
    refute_match(/crawler=/, line("/fast/59"))
  end

  # This machine's own name, as its resolver has it: by /etc/hosts it leads back.
  def test_verified_by_reverse_dns
    name = Socket.getnameinfo(Socket.sockaddr_in(0, "127.0.0.1"), Socket::NI_NAMEREQD).first
    start("crawlers = \"last\"\ncrawlers_verified = [\"search.example\", \"#{name}\"]")
    ask("/first", GOOGLEBOT)
    assert_match(/crawler=name/, line("/first"), "it is not known yet")
    number = 0
    eventually("the crawler to be verified") do
      path = "/again/#{number += 1}"
      ask(path, GOOGLEBOT)
      !line(path).include?("crawler=")
    end
    hold
    verified = open_request("/verified", GOOGLEBOT)
    waiting(1, 0)
    assert_equal [200, 200], release(verified)
  end

  def test_who_lies_is_a_crawler_all_the_same
    start("crawlers = \"last\"\ncrawlers_verified = \"googlebot.com\"")
    3.times do |number|
      ask("/#{number}", GOOGLEBOT)
      assert_match(/crawler=name/, line("/#{number}"))
    end
  end

  def test_status_metrics_and_json_log
    start('crawlers = "last"', "--access-log-format", "json")
    3.times { |number| ask("/#{number}", GOOGLEBOT) }
    ask("/4", FIREFOX)
    eventually("all to be counted") { site["counts"]["requests"] == 4 }
    counts = site["crawlers"]["counts"]
    assert_equal [3, 3, 0, 0], counts.values_at("requests", "answered", "stale", "refused")
    assert_equal 3, counts["queue_ms"]["count"]
    assert_equal 1, site["lately"]["total_ms"]["count"], "times are those of visitors"
    out, = command(@server, "status")
    assert_match(/^  of requests +75\.0 % +75\.0 %$/, out)
    metrics = control(@server, "/metrics")[1]
    assert_match(/^paceline_crawler_requests_total\{site="[^"]+",result="answered"\} 3$/, metrics)
    assert_match(/^paceline_crawler_queue_duration_seconds_count\{site="[^"]+"\} 3$/, metrics)
    assert_includes control(@server, "/")[1], "Crawlers: 75.0 % of requests"
    @server.wait_for(/^\{.*"crawler":"name".*"uri":"\/1"/)
  end
end
