# The page cache by the letter: what is stored, for whom, for how long, and what Cache-Status says of it. Responses are old by
# their Age and Date, not by waiting.
require_relative "../support/cached_site"
require_relative "../support/http2_client"
require "openssl"
require "time"

class CacheObeyTest < Minitest::Test
  include CachedSite

  FRESH = { "cache-control" => "max-age=60" }.freeze
  OLD = { "age" => "100" }.freeze

  def fields(said = {})
    site { |_asked| [200, { "content-type" => "text/plain", **said }, "page #{calls}"] }
  end

  # What becomes of the second of two requests.
  def second(said, asked = {}, target: "/")
    @pages ||= Hash.new { |pages, path| pages[path] = {} }
    @number = @number.to_i + 1
    unless @server
      site { |one| [*@pages[one.path].values_at(:status, :fields), "#{one.path} #{calls}"] }
    end
    path = "/page-#{@number}"
    @pages[path] = { status: 200, **said.slice(:status), fields: said.except(:status) }
    first = ask(path + target[1..], asked)
    [first, ask(path + target[1..], asked)]
  end

  def test_a_page_is_given_again_with_its_age
    date = (Time.now - 5).httpdate
    fields(FRESH.merge("date" => date, "etag" => '"1"', "x-own" => "kept"))
    first = ask("/")
    assert_equal ["page 1", "fwd=uri-miss; stored", nil], [first.body, status(first), first["age"]]
    again = ask("/")
    assert_equal ["page 1", date, '"1"', "kept", "text/plain"], [again.body, *%w[date etag x-own content-type].map { |name| again[name] }]
    assert_match(/\Ahit; ttl=[45]\d\z/, status(again))
    assert_includes 5..30, Integer(again["age"])
    assert_equal 1, calls
  end

  # [fields of the response, fields of the request, first Cache-Status, second Cache-Status]
  TABLE = [
    [{ "cache-control" => "no-store" }, {}, "fwd=uri-miss; detail=no-store", "fwd=uri-miss; detail=no-store"],
    [{ "cache-control" => "private, max-age=9" }, {}, "fwd=uri-miss; detail=private", "fwd=uri-miss; detail=private"],
    [{ "vary" => "*", **FRESH }, {}, "fwd=uri-miss; detail=vary-star", "fwd=uri-miss; detail=vary-star"],
    [{}, {}, "fwd=uri-miss; detail=no-freshness", "fwd=uri-miss; detail=no-freshness"],
    [FRESH, { "Authorization" => "Basic eDp5" }, "fwd=uri-miss; detail=authorization", "fwd=uri-miss; detail=authorization"],
    [{ "cache-control" => "public, max-age=60" }, { "Authorization" => "Basic eDp5" }, "fwd=uri-miss; stored", "hit"],
    [FRESH, { "Cache-Control" => "no-store" }, "fwd=uri-miss; detail=request-no-store", "fwd=uri-miss; detail=request-no-store"],
    [FRESH, { "Cache-Control" => "no-cache" }, "fwd=uri-miss; stored", "fwd=request; stored"],
    [FRESH, { "Pragma" => "no-cache" }, "fwd=uri-miss; stored", "fwd=request; stored"],
    [{ "cache-control" => "max-age=60, must-understand, no-store" }, {}, "fwd=uri-miss; stored", "hit"],
    [{ :status => 599, "cache-control" => "max-age=60, must-understand, no-store" }, {}, "fwd=uri-miss; detail=status", nil],
    [{ :status => 404, **FRESH }, {}, "fwd=uri-miss; stored", "hit"],
    [{ :status => 404 }, {}, "fwd=uri-miss; detail=no-freshness", nil],
    [{ :status => 503, **FRESH }, {}, "fwd=uri-miss; stored", "hit"],
    [{ :status => 500 }, {}, "fwd=uri-miss; detail=no-freshness", nil],
    [{ "cache-control" => "s-maxage=60, max-age=0" }, {}, "fwd=uri-miss; stored", "hit"],
    [{ "cache-control" => "max-age=0, no-store", "cdn-cache-control" => "max-age=60" }, {}, "fwd=uri-miss; stored", "hit"],
    [{ "cdn-cache-control" => "max-age=60", "paceline-cache-control" => "no-store" }, {}, "fwd=uri-miss; detail=no-store", nil],
    [{ "surrogate-control" => "max-age=60", "cache-control" => "private" }, {}, "fwd=uri-miss; stored", "hit"],
    [{ "surrogate-control" => "no-store", **FRESH }, {}, "fwd=uri-miss; detail=no-store", nil],
    [{ "last-modified" => "Sat, 01 Jan 2000 00:00:00 GMT" }, {}, "fwd=uri-miss; stored", "hit"],
    [{ "last-modified" => "Sat, 01 Jan 2000 00:00:00 GMT" }, { "Cookie" => "a=b" }, "fwd=uri-miss; detail=cookies", nil],
    [{ "last-modified" => "Sat, 01 Jan 2000 00:00:00 GMT", "set-cookie" => "a=b" }, {}, "fwd=uri-miss; detail=cookies", nil],
    [{ "expires" => "0", "etag" => '"a"' }, {}, "fwd=uri-miss; stored", "fwd=stale; stored"],
    [{ "etag" => '"a"', **FRESH, **OLD }, {}, "fwd=uri-miss; stored", "fwd=stale; stored"],
    [FRESH, { "If-Match" => '"a"' }, "fwd=request; stored", "fwd=request; stored"],
    # A session's cookie would be everybody's.
    [{ "cache-control" => "public, max-age=60", "set-cookie" => "_shop_session=0123456789abcdef; path=/; HttpOnly" }, {},
      "fwd=uri-miss; detail=set-cookie", "fwd=uri-miss; detail=set-cookie"],
  ].freeze

  def test_what_is_stored_and_what_it_says
    wrong = TABLE.filter_map do |said, asked, one, two|
      first, again = second(said, asked)
      got = [words(first), words(again)]
      "#{said} #{asked}: #{got}" unless got[0] == one && (two.nil? || got[1] == two)
    end
    assert_empty wrong
  end

  def test_fields_for_this_cache_alone_go_no_further
    first, again = second({ "paceline-cache-control" => "max-age=60", "surrogate-control" => "max-age=3", "cdn-cache-control" => "max-age=60" })
    [first, again].each do |one|
      assert_equal [nil, nil, "max-age=60"], %w[paceline-cache-control surrogate-control cdn-cache-control].map { |name| one[name] }
    end
  end

  def test_validation_and_the_clients_own_conditions
    site do |one|
      fresh = { "etag" => '"v1"', "x-times" => calls.to_s }
      one["if-none-match"] == '"v1"' ? [304, { **fresh, "cache-control" => "max-age=60" }, ""] : [200, { **fresh, **FRESH, **OLD }, "page"]
    end
    assert_equal "fwd=uri-miss; stored", status(ask("/"))
    renewed = ask("/")
    assert_equal [200, "page", "2"], [renewed.status, renewed.body, renewed["x-times"]]
    assert_match(/\Afwd=stale; fwd-status=304; ttl=\d+; stored\z/, status(renewed))
    hit = ask("/", { "If-None-Match" => 'W/"v1", "z"' })
    assert_equal [304, '"v1"', "hit"], [hit.status, hit["etag"], words(hit)]
    assert_equal [200, "page"], ask("/", { "If-None-Match" => '"other"' }).then { |one| [one.status, one.body] }
    assert_equal 304, ask("/", { "If-Modified-Since" => (Time.now + 60).httpdate }).status
    assert_equal [200, "", "4", "hit"], ask("/", method: "HEAD").then { |one| [one.status, one.body, one["content-length"], words(one)] }
    assert_equal 2, calls
  end

  def test_ranges_from_the_whole_and_parts_joined
    site do |one|
      fresh = { "etag" => '"v1"', **FRESH }
      case one["range"]
      when "bytes=0-3" then [206, { **fresh, "content-range" => "bytes 0-3/10" }, "0123"]
      when "bytes=4-9" then [206, { **fresh, "content-range" => "bytes 4-9/10" }, "456789"]
      when nil then [200, fresh, "0123456789"]
      else raise one["range"]
      end
    end
    part = ask("/parts", { "Range" => "bytes=0-3" })
    assert_equal [206, "0123", "fwd=uri-miss; stored"], [part.status, part.body, status(part)]
    assert_equal [206, "12", "bytes 1-2/10", "hit"], ask("/parts", { "Range" => "bytes=1-2" }).then { |one| [one.status, one.body, one["content-range"], words(one)] }
    assert_equal "fwd=partial; stored", words(ask("/parts", { "Range" => "bytes=4-9" }))
    joined = ask("/parts")
    assert_equal [200, "0123456789", "10", nil, "hit"], [joined.status, joined.body, joined["content-length"], joined["content-range"], words(joined)]
    ask("/whole")
    assert_equal [206, "789", "bytes 7-9/10"], ask("/whole", { "Range" => "bytes=-3" }).then { |one| [one.status, one.body, one["content-range"]] }
    assert_equal [416, "bytes */10"], ask("/whole", { "Range" => "bytes=10-" }).then { |one| [one.status, one["content-range"]] }
    assert_equal [200, "0123456789"], ask("/whole", { "Range" => "bytes=1-2", "If-Range" => '"old"' }).then { |one| [one.status, one.body] }
    assert_match(/\r\nContent-Range: bytes 0-0\/10\r\n\r\n0\r\n--/, ask("/whole", { "Range" => "bytes=0-0,9-9" }).body)
    assert_equal 3, calls
  end

  def test_variants
    site { |one| [200, { "vary" => "Accept-Language, Accept-Encoding", **FRESH }, "#{one["accept-language"]} #{one["accept-encoding"]}"] }
    ask("/", { "Accept-Language" => "en, de;q=0.5", "Accept-Encoding" => "br, identity" })
    same = ask("/", { "accept-language" => "de;q=0.50 ,EN", "Accept-Encoding" => "identity,br" })
    assert_equal ["hit", "en, de;q=0.5 br, identity"], [words(same), same.body]
    other = ask("/", { "Accept-Language" => "fr" })
    assert_equal "fwd=vary-miss; stored", words(other)
    assert_equal "hit", words(ask("/", { "Accept-Language" => "fr" }))
    assert_equal "fwd=vary-miss; stored", words(ask("/", { "Accept-Language" => "", "Accept-Encoding" => "br" }))
    assert_equal 3, calls
  end

  # As browsers send it, of a page that visitors go to.
  def visit(from) = { "Sec-Fetch-Site" => from, "Sec-Fetch-Mode" => "navigate", "Sec-Fetch-Dest" => "document" }

  # Rails 8.2 sends it with every page.
  def test_vary_by_sec_fetch_site_keeps_one_page_for_all_visits
    site { |_asked| [200, { "vary" => "Accept-Encoding,Sec-Fetch-Site", **FRESH }, "page #{calls}"] }
    assert_equal "fwd=uri-miss; stored", words(ask("/", visit("none")))
    others = [{}, visit("same-origin"), visit("same-site"), visit("cross-site"), { "Sec-Fetch-Site" => "same-origin", "Sec-Fetch-Mode" => "cors" }]
    others.each { |fields| assert_equal ["page 1", "hit"], ask("/", fields).then { |one| [one.body, words(one)] }, fields.inspect }
    assert_equal "hit", words(ask("/", visit("cross-site"), method: "HEAD"))
    assert_equal "Accept-Encoding,Sec-Fetch-Site", ask("/", visit("none"))["vary"], "browsers' own caches are told as before"
    # What another site embeds may be refused there.
    embedded = { "Sec-Fetch-Site" => "cross-site", "Sec-Fetch-Mode" => "no-cors", "Sec-Fetch-Dest" => "image" }
    assert_equal ["page 2", "fwd=vary-miss; stored"], ask("/", embedded).then { |one| [one.body, words(one)] }
    assert_equal 2, calls
  end

  def test_an_application_that_looks_at_more_than_sec_fetch_site_is_believed
    site { |one| [200, { "vary" => "Sec-Fetch-Site, Sec-Fetch-Mode, Sec-Fetch-Dest", **FRESH }, one["sec-fetch-site"]] }
    %w[none cross-site].each { |from| assert_equal from, ask("/", visit(from)).body }
  end

  def test_many_variants_are_found
    site { |one| [200, { "vary" => "x-own", **FRESH }, one["x-own"]] }
    300.times { |n| ask("/", { "X-Own" => n.to_s }) }
    300.times { |n| assert_equal [n.to_s, "hit"], ask("/", { "X-Own" => n.to_s }).then { |one| [one.body, words(one)] } }
  end

  # Pages whose Vary changes from answer to answer, against a list of all that was stored, searched from its end (RFC 9111
  # section 4.1: "each nominated field matches"; section 4: "the most recent one").
  def test_random_variants_against_a_list
    dice = Random.new(20_261_120)
    kept = []
    site do |one|
      names = [%w[x-a], %w[x-a x-b], %w[x-b x-c]].sample(random: dice)
      kept << [names, names.map { |name| one[name] }]
      [200, { "vary" => names.shuffle(random: dice).join(", "), **FRESH }, (kept.size - 1).to_s]
    end
    hits = 0
    2000.times do
      asked = %w[x-a x-b x-c].to_h { |name| [name, [nil, "1", "2"].sample(random: dice)] }.compact
      expected = kept.rindex { |names, values| names.map { |name| asked[name] } == values }
      asked["cache-control"] = "no-cache" if dice.rand(5).zero?
      page = ask("/", asked)
      next unless words(page) == "hit"
      hits += 1
      assert_equal expected.to_s, page.body, "#{asked}: #{kept[expected]} is newer than #{kept[page.body.to_i]}"
    end
    assert_operator hits, :>, 800
  end

  def test_no_vary_search
    site { |one| [200, { "no-vary-search" => 'key-order, params=("utm")', **FRESH }, one.target] }
    assert_equal "fwd=uri-miss; stored", words(ask("/p?b=1&a=2&utm=x"))
    ["/p?a=2&b=1", "/p?utm=7&b=1&a=2", "/p?a=2&utm&b=1"].each { |target| assert_equal ["hit", "/p?b=1&a=2&utm=x"], ask(target).then { |one| [words(one), one.body] } }
    ["/p?a=2", "/p?a=2&b=2", "/p", "/other?utm=1&b=1&a=2"].each { |target| assert_equal target, ask(target).body }
  end

  def test_groups_and_their_invalidation
    site do |one|
      next [200, { "cache-group-invalidation" => '"a"' }, ""] if one.method == "POST"
      [200, { "cache-groups" => one.path == "/b" ? '"b"' : '"a", "b"', **FRESH }, one.path]
    end
    %w[/a1 /a2 /b].each { |path| ask(path) }
    ask("/elsewhere", method: "POST", body: "x")
    assert_equal %w[fwd=uri-miss fwd=uri-miss hit], %w[/a1 /a2 /b].map { |path| words(ask(path)).split(";").first }
  end

  def test_unsafe_methods_invalidate
    site do |one|
      next [200, FRESH, one.target] if one.method == "GET"
      fields = one["x-say"] ? one["x-say"].split("|").each_slice(2).to_h : {}
      [Integer(one["x-status"] || 200), fields, ""]
    end
    dropped = lambda do |method, *paths, **fields|
      all = %w[/a /b /c?d=1]
      all.each { |path| ask(path) }
      ask("/a", fields.transform_keys(&:to_s), method: method, body: "")
      assert_equal paths, all.reject { |path| words(ask(path)) == "hit" }, "#{method} #{fields}"
    end
    dropped["POST", "/a"]
    dropped["PUT", "/a"]
    dropped["DELETE", "/a"]
    dropped["PATCH", "/a"]
    dropped["FROBNICATE", "/a"]
    dropped["OPTIONS"]
    dropped["POST", "X-Status": "500"]
    dropped["POST", "X-Status": "422"]
    dropped["POST", "/a", "/b", "X-Status": "303", "X-Say": "location|/b"]
    dropped["POST", "/a", "/b", "X-Status": "302", "X-Say": "location|http://shop.test/b#top"]
    dropped["POST", "/a", "/c?d=1", "X-Say": "content-location|c?d=1"]
    dropped["POST", "/a", "X-Say": "location|http://other.test/b"]
    dropped["POST", "/a", "X-Say": "location|https://shop.test/b"]
  end

  def test_only_if_cached
    fields(FRESH)
    none = ask("/", { "Cache-Control" => "only-if-cached" })
    assert_equal [504, 0], [none.status, calls]
    refute_includes status(none), "fwd", "nothing was forwarded (RFC 9211 section 2.2)"
    ask("/")
    assert_equal [200, "hit"], ask("/", { "Cache-Control" => "only-if-cached" }).then { |one| [one.status, words(one)] }
  end

  def test_what_the_client_wants
    fields("cache-control" => "max-age=60", "age" => "20", "etag" => '"x"')
    ask("/")
    { "max-age=30" => "hit", "max-age=10" => "fwd=request; stored", "min-fresh=10" => "hit", "min-fresh=50" => "fwd=request; stored" }.each do |wish, expected|
      assert_equal expected, words(ask("/", { "Cache-Control" => wish })), wish
    end
    fields("cache-control" => "max-age=60", "age" => "90")
    @client = nil
    ask("/kept", {})
    fields("cache-control" => "max-age=60", "age" => "90", "etag" => '"x"')
    @client = nil
    ask("/")
    { "max-stale" => "hit", "max-stale=60" => "hit", "max-stale=10" => "fwd=stale; stored", "x" => "fwd=stale; stored" }.each do |wish, expected|
      assert_equal expected, words(ask("/", { "Cache-Control" => wish })), wish
    end
    assert_match(/\Ahit; ttl=-3\d\z/, status(ask("/", { "Cache-Control" => "max-stale" })))
  end

  def test_age_is_passed_on_and_added_to
    fields("cache-control" => "max-age=600", "age" => "30")
    assert_equal "30", ask("/")["age"]
    assert_includes 30..60, Integer(ask("/")["age"])
  end

  def test_http2
    fields(FRESH)
    assert_equal "page 1", ask("/a").body
    @server.connect do |socket|
      peer = Http2Client.new(socket)
      2.times { assert_equal [200, "page 1"], peer.response(peer.request(path: "/a")) }
      assert_equal [200, "page 2"], peer.response(peer.request(path: "/b"))
    end
    assert_equal ["page 2", "hit"], ask("/b").then { |one| [one.body, words(one)] }
    assert_equal 2, calls
  end

  def test_interim_responses_are_not_what_is_kept
    site { |_one, link| link.write("HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 5\r\n\r\nfinal") && nil }
    first = ask("/")
    first = @client.receive if first.status == 103
    assert_equal [200, "final"], [first.status, first.body]
    assert_equal [200, "final", "hit"], ask("/").then { |one| [one.status, one.body, words(one)] }
  end

  def test_a_body_that_breaks_off_is_not_kept
    site do |_one, link|
      link.write("HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 10\r\n\r\n12345")
      link.io.close_write
    end
    2.times { assert_raises(EOFError) { client.ask("/") } }
    assert_equal 2, calls
  end

  def test_without_a_cache_nothing_is_kept
    site("page_cache = false") { |_one| [200, FRESH, calls.to_s] }
    assert_equal [%w[1 2], nil], [[ask("/").body, ask("/").body], ask("/")["cache-status"]]
  end
end
