# Pages put together from fragments: what they come to, when things are asked for and go out, and what is refused.
require "json"
require "zlib"
require_relative "../support/scenario"
require_relative "../support/http2_client"
require_relative "../support/origin"

class EsiTest < Minitest::Test
  include Scenario

  # PAGES: templates by path. /n... tells how often it was asked, /kept... may be kept, /meet/a and /meet/b wait for each other.
  APP = <<~'RUBY'.freeze
    require "json"
    require "zlib"
    PAGES = JSON.parse(File.read(File.join(__dir__, "pages.json")))
    COUNTS, LOCK = Hash.new(0), Mutex.new
    MEETING = { "/meet/a" => Queue.new, "/meet/b" => Queue.new }
    run ->(env) {
      path = env["PATH_INFO"]
      count = LOCK.synchronize { COUNTS[path] += 1 }
      plain = { "content-type" => "text/plain" }
      case path
      when *PAGES.keys
        status, headers, body = PAGES[path]
        [status, { "content-type" => "text/html", "surrogate-control" => 'content="ESI/1.0"' }.merge(headers), [body]]
      when %r{\A/n} then [200, plain, ["<#{count}>"]]
      when %r{\A/kept} then [200, plain.merge("cache-control" => "max-age=60"), ["<kept #{count}>"]]
      when %r{\A/echo} then [200, plain, [JSON.generate(env.select { |name, _| name.match?(/\A(HTTP_|REQUEST_|QUERY|CONTENT)/) })]]
      when %r{\A/status/(\d+)} then [$1.to_i, plain, ["status"]]
      when %r{\A/wait} then File.read("barrier"); [200, plain.merge("cache-control" => "max-age=60"), ["waited #{count}"]]
      when "/meet/a" then MEETING["/meet/b"] << 1; MEETING["/meet/a"].pop; [200, plain, ["a met b"]]
      when "/meet/b" then MEETING["/meet/a"] << 1; MEETING["/meet/b"].pop; [200, plain, ["b met a"]]
      when "/gzip" then [200, plain.merge("content-encoding" => "gzip"), [Zlib.gzip("unzipped")]]
      when "/cookie" then [200, plain.merge("set-cookie" => "fragment=1"), ["cookie"]]
      when "/counts" then [200, { "cache-control" => "no-store" }, [JSON.generate(COUNTS)]]
      else [404, plain, ["none"]]
      end
    }
  RUBY

  # `pages`: path => body, or [status, headers, body].
  def start(*arguments, toml: "", files: {}, **pages)
    pages = pages.to_h { |path, page| [path, page.is_a?(String) ? [200, {}, page] : page] }
    @dir = app({ "config.ru" => APP, "pages.json" => JSON.generate(pages), "paceline.toml" => toml }.merge(files))
    @server = serve(@dir, "-w", "1", "-t", "5", *arguments)
  end

  def teardown
    super
    Array(@origins).each(&:close)
  end

  def get(path, fields = {}) = @server.get(path, fields)

  def body(path, fields = {}) = get(path, fields).body

  def count(path) = JSON.parse(body("/counts")).fetch(path, 0)

  def include(url, rest = "") = %(<esi:include src="#{url}" #{rest}/>)

  def test_every_tag_of_esi_is_carried_out
    start("/" => <<~HTML.delete("\n"))
      [#{include("/n/plain")}]
      [#{include("/status/404", 'alt="/n/alt"')}]
      [#{include("/status/500", 'onerror="continue"')}]
      [<esi:try><esi:attempt>#{include("/status/500")}</esi:attempt><esi:except>excepted</esi:except></esi:try>]
      [<esi:try><esi:attempt>fine #{include("/n/try")}</esi:attempt><esi:except>#{include("/n/never")}</esi:except></esi:try>]
      [<esi:choose><esi:when test="$(HTTP_COOKIE{group})=='admin'">#{include("/n/admin")}</esi:when><esi:otherwise>#{include("/n/other")}</esi:otherwise></esi:choose>]
      [<esi:vars>$(QUERY_STRING{q}) $(HTTP_COOKIE{name}|nobody)</esi:vars>]
      [<esi:remove>removed</esi:remove><esi:comment text="x"/>]
      [<!--esi <p>$(HTTP_HOST)</p> -->]
    HTML
    expected = "[<1>][<1>][][excepted][fine <1>][<1>][a&lt;b Ann][][ <p>$(HTTP_HOST)</p> ]"
    assert_equal expected, body("/?q=a%3Cb", "Cookie" => "group=admin; name=Ann")
    assert_equal [1, 0, 0], [count("/n/admin"), count("/n/other"), count("/n/never")]
    assert_includes body("/?q=1"), "nobody"
    assert_equal 1, count("/n/other")
  end

  def test_only_pages_with_surrogate_control_are_put_together
    plain = include("/n")
    start("/other" => [200, { "surrogate-control" => 'content="ESI/1.0";akamai' }, plain],
      "/none" => [200, { "surrogate-control" => "max-age=60" }, plain], "/page" => plain)
    %w[/other /none].each { |path| assert_equal [plain, nil], get(path).then { |answer| [answer.body, answer["surrogate-control"]] } }
    answer = get("/page")
    assert_equal ["<1>", nil], [answer.body, answer["surrogate-control"]]
  end

  def test_esi_false_leaves_tags_as_they_are
    start("--esi=false", "/page" => include("/n"))
    answer = get("/page")
    assert_equal [include("/n"), nil], [answer.body, answer["surrogate-control"]]
    assert_equal 'paceline="Surrogate/1.0"', JSON.parse(body("/echo"))["HTTP_SURROGATE_CAPABILITY"]
  end

  def test_fragments_get_the_fields_of_the_client_but_no_conditions_or_ranges
    start("--redirect-https=false", "/page" => include("/echo?a=$(QUERY_STRING{a})"))
    env = JSON.parse(body("/page?a=%C3%BC", "Cookie" => "a=b", "Accept-Language" => "de", "Authorization" => "Basic eDp5", "User-Agent" => "me",
      "Referer" => "http://x/", "Range" => "bytes=0-1", "If-None-Match" => '"x"', "Accept-Encoding" => "gzip", "Host" => "shop.test:81",
      "X-Request-Id" => "id-1"))
    assert_equal ["GET", "/echo?a=%C3%BC", "shop.test:81", "a=b", "de", "Basic eDp5", "me", "http://x/", "id-1", "identity"],
      env.values_at(*%w[REQUEST_METHOD REQUEST_URI HTTP_HOST HTTP_COOKIE HTTP_ACCEPT_LANGUAGE HTTP_AUTHORIZATION HTTP_USER_AGENT HTTP_REFERER
        HTTP_X_REQUEST_ID HTTP_ACCEPT_ENCODING])
    assert_equal 'paceline="Surrogate/1.0 ESI/1.0"', env["HTTP_SURROGATE_CAPABILITY"]
    assert_empty env.keys & %w[HTTP_RANGE HTTP_IF_NONE_MATCH CONTENT_LENGTH CONTENT_TYPE]
    assert_equal 'other="ESI/1.0", paceline="Surrogate/1.0 ESI/1.0"',
      JSON.parse(body("/page", "Surrogate-Capability" => 'other="ESI/1.0"'))["HTTP_SURROGATE_CAPABILITY"]
  end

  def test_the_answer_to_a_post_is_put_together_too
    start("/page" => include("/echo"))
    env = JSON.parse(@server.request(Net::HTTP::Post.new("/page").tap { |post| post.set_form_data("a" => "b") }).body)
    assert_equal ["GET", nil, nil], env.values_at("REQUEST_METHOD", "CONTENT_LENGTH", "CONTENT_TYPE")
  end

  def test_fragments_are_asked_for_in_parallel
    start("/page" => "#{include("/meet/a")}, #{include("/meet/b")}")
    assert_equal "a met b, b met a", body("/page")
  end

  def test_the_beginning_does_not_wait_for_a_fragment
    start("/page" => "before #{include("/wait")} after")
    gate = barrier(@dir)
    @server.connect do |socket|
      socket.write("GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
      nil until socket.gets == "\r\n"
      # The app stands at the barrier.
      assert_equal "before ", chunk(socket)
      gate.open
      rest = +""
      while (piece = chunk(socket))
        rest << piece
      end
      assert_equal "waited 1 after", rest
    end
  end

  def test_a_page_is_compressed_while_it_is_put_together
    start("/page" => "before #{"x" * 2000}#{include("/wait")} after")
    gate = barrier(@dir)
    @server.connect do |socket|
      socket.write("GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAccept-Encoding: gzip\r\n\r\n")
      head = +""
      head << socket.gets until head.end_with?("\r\n\r\n")
      assert_match(/^content-encoding: gzip\r$/i, head)
      inflate, seen = Zlib::Inflate.new(Zlib::MAX_WBITS + 16), +""
      seen << inflate.inflate(chunk(socket)) until seen.bytesize == 2007
      gate.open
      while (piece = chunk(socket))
        seen << inflate.inflate(piece)
      end
      assert_equal "before #{"x" * 2000}waited 1 after", seen
    end
  end

  def test_a_page_over_http2_is_put_together_and_one_cut_off_is_reset
    start("/page" => "before #{include("/n")} after", "/lost" => "#{"x" * 70_000}#{include("/status/500")}")
    client = Http2Client.new(@server.connect)
    assert_equal [200, "before <1> after"], client.response(client.request(path: "/page"))
    assert_equal :reset, client.response(client.request(path: "/lost")).first
  ensure
    client&.close
  end

  def test_fragments_within_fragments_are_put_together
    start("/page" => "1#{include("a/b")}", "/a/b" => "2#{include("c")}", "/a/c" => "3#{include("../n")}")
    assert_equal "123<1>", body("/page")
  end

  def test_a_page_that_includes_itself_ends
    start("/page" => "again #{include("/page", 'onerror="continue"')}", "/stuck" => include("/stuck"),
      "/many" => include("/many", 'onerror="continue"') * 100)
    assert_equal "again " * 5, body("/page")
    assert_equal "502", get("/stuck").code
    assert_equal "", body("/many")
    assert_operator count("/many"), :<=, 257
  end

  def test_each_fragment_is_kept_by_its_own_rules
    start("/page" => [200, { "cache-control" => "max-age=60" }, "#{include("/kept")}#{include("/n")}"])
    assert_equal "<kept 1><1>", body("/page")
    answer = get("/page")
    assert_equal "<kept 1><2>", answer.body
    assert_match(/\Apaceline; hit/, answer["cache-status"])
    assert_equal [1, 1, 2], [count("/page"), count("/kept"), count("/n")]
  end

  def test_one_fragment_wanted_twice_is_asked_for_once
    start("/page" => "#{include("/wait")} #{include("/wait")}")
    gate = barrier(@dir)
    page = Thread.new { body("/page") }
    gate.open
    assert_equal "waited 1 waited 1", page.value
    assert_equal 1, count("/wait")
  end

  def test_a_kept_template_makes_a_page_for_each_visitor
    start("/page" => [200, { "cache-control" => "public, max-age=60", "etag" => '"t"', "last-modified" => "Wed, 01 Jan 2020 00:00:00 GMT" },
      "<esi:vars>Hello $(HTTP_COOKIE{name})</esi:vars>"])
    assert_equal "Hello Ann", body("/page", "Cookie" => "name=Ann")
    assert_equal "Hello Bob", body("/page", "Cookie" => "name=Bob")
    answer = get("/page", "If-None-Match" => '"t"', "If-Modified-Since" => "Wed, 01 Jan 2020 00:00:00 GMT", "Range" => "bytes=0-1")
    assert_equal ["200", "Hello "], [answer.code, answer.body]
    assert_equal ["public, max-age=60", nil, nil, nil],
      ["cache-control", "etag", "last-modified", "accept-ranges"].map { |name| answer[name] }
    assert_equal 1, count("/page")
  end

  def test_a_template_with_a_cookie_is_not_kept
    start("/page" => [200, { "cache-control" => "max-age=60", "set-cookie" => "session=1" }, include("/kept")])
    2.times { assert_match(/detail=set-cookie|detail=uncacheable/, get("/page").tap { |answer| assert_equal "<kept 1>", answer.body }["cache-status"]) }
    assert_equal 2, count("/page")
  end

  def test_a_template_that_was_validated_is_still_one
    dir = app("paceline.toml" => "[[site]]\nupstream = \"#{validating.url}\"\n")
    @server = serve(dir, ready: false)
    assert_equal ["[1]", "[2]", "[3]"], 3.times.map { body("/page") }
    assert_equal [nil, '"t"', '"t"'], @conditions
  end

  def test_head_has_no_length
    start("/page" => [200, { "content-length" => "27", "cache-control" => "max-age=60" }, %(<esi:include src="/status/1"/>)[0, 27]])
    2.times do
      answer = @server.request(Net::HTTP::Head.new("/page"))
      assert_equal ["200", nil, nil], [answer.code, answer["content-length"], answer["surrogate-control"]]
      get("/page")
    end
  end

  def test_other_hosts_are_refused
    elsewhere = %w[http://127.0.0.1:1/n //other.test/n http://user@localhost/n file:///etc/passwd \\n]
    start("/page" => elsewhere.map { |url| include(url, 'onerror="continue"') }.join + "end", "/own" => include("http://$(HTTP_HOST)/n"))
    assert_equal "end", body("/page")
    assert_equal 0, count("/n")
    assert_equal "<1>", body("/own")
    @server.wait_for(/127\.0\.0\.1 is another host, and not in esi_hosts/)
  end

  def test_fragments_of_other_sites_of_this_server_are_allowed
    page = { "/page" => [200, {}, "#{include("http://other.test/echo")}|#{include("http://unknown.test/n", 'onerror="continue"')}|" \
      "#{include("http://third.test/n", 'onerror="continue"')}"] }
    files = { "config.ru" => APP, "pages.json" => JSON.generate(page) }
    dir = app({ "a" => files, "b" => files }.flat_map { |name, all| all.map { |file, text| ["#{name}/#{file}", text] } }.to_h.merge(
      "paceline.toml" => <<~TOML))
        [[site]]
        host = "shop.test"
        root = "a"
        esi_hosts = ["other.test", "unknown.test"]
        [[site]]
        host = ["other.test", "third.test"]
        root = "b"
        [[site]]
        name = "rest"
        root = "b"
      TOML
    @server = serve(dir, "-w", "1", ready: false)
    answer = body("/page", "Host" => "shop.test", "Cookie" => "secret=1", "Authorization" => "Basic eDp5", "Accept-Language" => "de")
    echo, *rest = answer.split("|", -1)
    assert_equal ["", ""], rest
    assert_equal ["other.test", nil, nil, "de"],
      JSON.parse(echo).values_at("HTTP_HOST", "HTTP_COOKIE", "HTTP_AUTHORIZATION", "HTTP_ACCEPT_LANGUAGE")
    @server.wait_for(/no site of this server has the host unknown\.test/)
    @server.wait_for(/third\.test is another host/)
  end

  def test_files_are_fragments_too
    start("/page" => "[#{include("/part.html")}][#{include("/status/404", 'onerror="continue"')}]", files: { "public/part.html" => "a file" })
    assert_equal "[a file][]", body("/page")
  end

  def test_a_page_that_cannot_be_completed_is_502_or_cut_off
    start("/moved" => include("/status/302"), "/known" => "before #{include("//other.test/")}", "/begun" => "x" * 70_000 + include("/status/500"))
    %w[/moved /known].each { |path| assert_equal ["502", nil], get(path).then { |answer| [answer.code, answer["surrogate-control"]] } }
    @server.wait_for(/"GET \/moved .* note="esi: \/moved: fragment \/status\/302: status 302"/)
    whole = @server.exchange("GET /begun HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert whole.start_with?("HTTP/1.1 200 OK")
    refute whole.end_with?("0\r\n\r\n"), "a page that was cut off must not look whole"
    @server.wait_for(/esi: \/begun: there is nothing in place of \/status\/500; the page was cut off/)
  end

  def test_after_a_mistake_the_page_goes_out_as_it_is
    start("/page" => "good #{include("/n")} <esi:try>bad</esi:try> #{include("/n")}", "/open" => "a<esi:vars>b", "/unknown" => "<esi:x/>y")
    assert_equal "good <1> bad</esi:try> #{include("/n")}", body("/page").sub("<esi:try>", "")
    assert_equal "ab", body("/open")
    assert_equal "<esi:x/>y", body("/unknown")
    @server.wait_for(/note="esi: \/unknown: <esi:x> is no element of ESI 1\.0 \(at byte 0\); from there on the page goes out as it is"/)
  end

  def test_compressed_templates_and_fragments_are_decompressed
    start("/zip" => [200, {}, ""], "/page" => include("/gzip"))
    assert_equal "unzipped", body("/page")
    zipped = Zlib.gzip("zip #{include("/n")}").b
    coded = origin do |link, _|
      while (head = link.head)
        case head.line
        when %r{/page} then link.write("HTTP/1.1 200 OK\r\nSurrogate-Control: content=\"ESI/1.0\"\r\nContent-Encoding: gzip\r\nContent-Length: #{zipped.bytesize}\r\n\r\n#{zipped}")
        when %r{/br} then link.write("HTTP/1.1 200 OK\r\nSurrogate-Control: content=\"ESI/1.0\"\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nbr")
        else link.write("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nn")
        end
      end
    end
    @server = serve(app("paceline.toml" => "[[site]]\nupstream = \"#{coded.url}\"\n"), ready: false)
    answer = get("/page", "Accept-Encoding" => "identity")
    assert_equal ["zip n", nil], [answer.body, answer["content-encoding"]]
    answer = get("/br", "Accept-Encoding" => "br")
    assert_equal ["br", "br"], [answer.body, answer["content-encoding"]]
  end

  def test_cookies_of_fragments_stay_there
    start("/page" => [200, { "set-cookie" => "page=1" }, include("/cookie")])
    answer = get("/page")
    assert_equal ["cookie", ["page=1"]], [answer.body, answer.get_fields("set-cookie")]
  end

  def test_a_client_that_leaves_takes_its_questions_back
    asked, gone = Queue.new, Queue.new
    waiting = origin do |link, _|
      while (head = link.head)
        if head.line.include?("/page")
          text = "before #{include("/slow")}"
          link.write("HTTP/1.1 200 OK\r\nSurrogate-Control: content=\"ESI/1.0\"\r\nContent-Length: #{text.bytesize}\r\n\r\n#{text}")
        else
          asked << true
          link.io.read
          gone << true
        end
      end
    end
    @server = serve(app("paceline.toml" => "[[site]]\nupstream = \"#{waiting.url}\"\n"), ready: false)
    @server.connect do |socket|
      socket.write("GET /page HTTP/1.1\r\nHost: a\r\n\r\n")
      nil until socket.gets == "\r\n"
      assert_equal "before ", chunk(socket)
      Timeout.timeout(PATIENCE) { asked.pop }
      assert_empty gone
    end
    assert Timeout.timeout(PATIENCE) { gone.pop }
  end

  # The page's body is read only as fast as the client takes it; who answers a fragment is not made to wait for that.
  def test_a_client_that_reads_nothing_holds_no_worker
    start("-t", "1", "/page" => "#{include("/wait")}#{"x" * 8_000_000}#{include("/n")}")
    gate = barrier(@dir)
    @server.connect do |socket|
      socket.write("GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
      gate.open
      nil until socket.gets == "\r\n"
      assert_operator count("/wait"), :==, 1
      size = 0
      while (piece = chunk(socket))
        size += piece.bytesize
      end
      assert_equal 8_000_000 + "waited 1<1>".bytesize, size
    end
  end

  def test_esi_include_of_the_gem_works_with_esi_and_without
    ru = <<~'RUBY'
      $LOAD_PATH.unshift(File.join(ENV.fetch("PACELINE_GEM_DIR"), "lib"))
      require "paceline"
      APP = ->(env) {
        next [200, {}, ["cart of #{env["HTTP_COOKIE"]}"]] if env["PATH_INFO"] == "/cart"
        headers = { "content-type" => "text/html", "cache-control" => "public, max-age=60" }
        [200, headers, ["[", Paceline.esi_include(env, "/cart?a=1&b=2", headers: headers, app: APP), "]"]]
      }
      run APP
    RUBY
    @server = serve(app("config.ru" => ru))
    assert_equal ["[cart of name=Ann]", nil], get("/", "Cookie" => "name=Ann").then { |answer| [answer.body, answer["surrogate-control"]] }
    answer = get("/", "Cookie" => "name=Bob")
    assert_equal "[cart of name=Bob]", answer.body
    assert_match(/\Apaceline; hit/, answer["cache-status"])
    @server = serve(app("config.ru" => ru), "--esi=false")
    assert_equal "[cart of name=Ann]", body("/", "Cookie" => "name=Ann")
  end

  # Fragments that nobody waits for are not read on without bound.
  def test_a_fragment_that_has_to_wait_takes_no_more_than_response_memory
    start("--cache-object", "1MB", "--response-memory", "64KB",
      "/page" => "#{include("/wait")}#{include("/big")}", "/big" => [200, { "surrogate-control" => "x" }, "y" * 12_000_000])
    gate = barrier(@dir)
    body("/big")
    before = @server.private_memory
    page = Thread.new { body("/page") }
    @server.wait_for(/GET \/big/)
    eventually("the fragment to be asked for") { count("/big") == 2 }
    # A round trip through the same server gives the fragment the time to come.
    20.times { body("/counts") }
    grown = @server.private_memory - before
    gate.open
    assert_equal 12_000_000 + "waited 1".bytesize, page.value.bytesize
    assert_operator grown, :<, 8_000_000
  end

  def test_the_log_has_the_number_of_fragments
    start("/page" => "#{include("/n/1")}#{include("/n/2")}")
    get("/page")
    @server.wait_for(%r{"GET /page HTTP/1\.1" 200 .* fragments=2\b})
    refute_match(%r{GET /n/1}, @server.output)
  end

  def test_fragments_are_held_to_the_rate_limit_of_their_path
    rule = "[[rate_limit]]\npath = \"/n\"\nrate = \"1/h\"\n"
    start(toml: rule, "/page": "#{include("/n", "onerror='continue'")}|", "/free": include("/kept"))
    assert_equal ["<1>|", "|"], Array.new(2) { body("/page") }
    assert_equal 1, count("/n")
    assert_equal "<kept 1>", body("/free")
  end

  private

  def origin(...) = Origin.new(...).tap { |origin| (@origins ||= []) << origin }

  # A template that has to be validated for each request, and a fragment that counts.
  def validating
    @conditions, count = [], 0
    origin do |link, _|
      while (head = link.head)
        if head.line.include?("/page")
          @conditions << head["if-none-match"]
          text = "[#{include("/n")}]"
          link.write(head["if-none-match"] ? "HTTP/1.1 304 Not Modified\r\nETag: \"t\"\r\n\r\n" :
            "HTTP/1.1 200 OK\r\nCache-Control: no-cache\r\nETag: \"t\"\r\nSurrogate-Control: content=\"ESI/1.0\"\r\nContent-Length: #{text.bytesize}\r\n\r\n#{text}")
        else
          link.write("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 1\r\n\r\n#{count += 1}")
        end
      end
    end
  end

  # nil: the last chunk.
  def chunk(socket)
    size = socket.gets.to_i(16)
    data = socket.read(size)
    socket.read(2)
    size.zero? ? nil : data
  end
end
