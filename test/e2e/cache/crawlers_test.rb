# The page cache and crawlers that come last: they get stale pages, and no visitor waits for what a crawler has asked for. Pages
# are old by their Age.
require_relative "../support/cached_site"

class CacheCrawlersTest < Minitest::Test
  include CachedSite

  CRAWLER = { "User-Agent" => "ExampleBot/1.0 (+http://bot.example/)" }.freeze
  LAST = 'crawlers = "last"'.freeze

  def old(more = "", age: 100) = { "cache-control" => "max-age=60#{more}", "age" => age.to_s, "etag" => '"a"' }

  def test_a_crawler_gets_the_stale_page
    site(LAST) { [200, old, "page #{calls}"] }
    ask("/")
    stale = ask("/", CRAWLER)
    assert_equal ["page 1", "hit; detail=crawler"], [stale.body, words(stale)]
    assert_match(/ttl=-4\d/, status(stale))
    assert_equal ["page 2", "fwd=stale; stored"], ask("/").then { |page| [page.body, words(page)] }, "a visitor gets a new one"
    assert_equal "page 2", ask("/", CRAWLER).body
    @server.wait_for(/cache=stale crawler=name/)
  end

  def test_only_within_the_bound_and_where_it_is_allowed
    { old(age: 4000) => LAST, old(", must-revalidate") => LAST, old(", proxy-revalidate") => LAST, old(", s-maxage=60") => LAST,
      old(", no-cache") => LAST, old => "#{LAST}\ncrawlers_stale = \"off\"", old(age: 100).dup => "#{LAST}\ncrawlers_stale = \"10s\"", old(age: 101) => "" }.each do |fields, toml|
      @client = nil
      site(toml) { [200, fields, "page #{calls}"] }
      ask("/")
      assert_equal "page 2", ask("/", CRAWLER).body, "#{toml} #{fields}"
    end
    @client = nil
    site(LAST) { [200, old, "page #{calls}"] }
    ask("/")
    assert_equal "page 2", ask("/", CRAWLER.merge("Cache-Control" => "no-cache")).body
  end

  def test_what_was_purged_is_shown_to_nobody
    site(LAST) { |asked| [200, asked.method == "POST" ? {} : old, "page #{calls}"] }
    ask("/")
    ask("/", method: "POST", body: "x")
    assert_equal "page 3", ask("/", CRAWLER).body
  end

  def test_no_visitor_waits_for_a_crawlers_page
    gates = [Queue.new, Queue.new]
    site(LAST, threads: 1) do
      number = calls
      gates[number - 1]&.pop
      [200, { "cache-control" => "max-age=60" }, "page #{number}"]
    end
    crawler = client.send("/", CRAWLER)
    reached(1)
    visitor = client.send("/")
    reached(2)
    gates[1] << 1
    assert_equal ["page 2", "fwd=uri-miss; stored"], visitor.receive.then { |page| [page.body, words(page)] }
    gates[0] << 1
    assert_equal "page 1", crawler.receive.body
  end

  def test_a_crawler_gets_what_a_visitor_has_asked_for
    gate = Queue.new
    site(LAST, threads: 1) do
      gate.pop
      [200, { "cache-control" => "max-age=60" }, "page #{calls}"]
    end
    visitor = client.send("/")
    reached(1)
    crawler = client.send("/", CRAWLER)
    3.times { assert_equal 504, ask("/marker", { "Cache-Control" => "only-if-cached" }).status }
    2.times { gate << 1 }
    assert_equal %w[page\ 1 page\ 1], [visitor, crawler].map { |one| one.receive.body }
    assert_equal 1, calls
  end

  # The new page is made for a visitor.
  def test_a_crawler_revalidates_nothing
    site(LAST) { [200, old(", stale-while-revalidate=1000"), "page #{calls}"] }
    ask("/")
    10.times { assert_equal ["page 1", "hit; detail=stale-while-revalidate"], ask("/", CRAWLER).then { |page| [page.body, words(page)] } }
    assert_equal 1, calls
    ask("/")
    reached(2)
  end
end
