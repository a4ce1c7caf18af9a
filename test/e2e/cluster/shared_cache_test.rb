# Several servers that share their cached pages by a real Valkey or Redis: which renders, which wait, what is never shown, and a
# Valkey that is away. The application waits on queues of the test, so that each order of events is the test's own.
require_relative "../support/control"
require_relative "../support/origin"
require_relative "../support/valkey"

class SharedCacheTest < Minitest::Test
  include Scenario
  include Control

  FRESH = ["Cache-Control: max-age=600", "Surrogate-Key: tag"].freeze

  def setup
    skip "there is no valkey-server and no redis-server" unless Valkey.program
    @valkey = Valkey.new
    @asked, @gates, @ends = Queue.new, {}, Queue.new
    # Each answer has a number of its own, unless the path has a version. One with a gate waits for what the test puts there.
    @numbers, @versions, @lock = Hash.new(0), {}, Mutex.new
    @origin = Origin.new do |link, _|
      while (head = link.head)
        method, target, = head.line.split
        link.body(head)
        number = @versions[target] || @lock.synchronize { @numbers[target] += 1 }
        @asked << [target, number]
        @gates[target]&.then { |gate| number == gate[:number] && gate[:queue].pop }
        answer(link, method, target, head, number)
      end
    end
  end

  def answer(link, method, target, head, number)
    case target
    when %r{^/vary} then link.answer("#{head["x-kind"]} #{number}", fields: [*FRESH, "Vary: X-Kind"])
    when %r{^/large} then link.answer("#{number} #{"x" * 5000}", fields: FRESH)
    when %r{^/private} then link.answer(number.to_s, fields: ["Cache-Control: private"])
    when %r{^/begun} then begin_answer(link, target, number)
    when %r{^/fails} then link.answer(number.to_s, status: "500 X")
    else link.answer(number.to_s, fields: method == "GET" ? [*FRESH, %(ETag: "#{number}")] : [])
    end
  end

  # The head says what the path ends with, and the body of the first answer ends when something is put into the queue.
  def begin_answer(link, target, number)
    fields = { "no-cache" => "Cache-Control: no-cache", "stale" => "Cache-Control: max-age=0", "search" => "#{FRESH[0]}\r\nNo-Vary-Search: params" }
    said = fields.fetch(File.basename(target), FRESH[0])
    link.write("HTTP/1.1 200 OK\r\nETag: \"#{number}\"\r\n#{said}\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n#{number.to_s.ljust(2000)}\r\n")
    @ends.pop if number == 1
    link.write("0\r\n\r\n")
  end

  def teardown
    @fronts&.each { |front| Process.kill(:CONT, front.pid) unless front.ended? }
    @valkey&.signal(:CONT) if @valkey&.pid
    super
    @origin&.close
    @valkey&.close
  end

  # Starts so many servers; returns when all of them show pages and share them. A test machine may be slow, so they wait long.
  def fronts(count, keys: "shared_cache_time = \"10s\"", site: "", sharing: true)
    settings = "[cluster]\nurl = \"#{@valkey.url}\"\nname = \"shop\"\npartition_ttl = \"1h\"\nshared_cache = true\n#{keys}\n[[site]]\nupstream = \"#{@origin.url}\"\n#{site}"
    @fronts = Array.new(count) { serve(app("paceline.toml" => settings), ready: false) }
    @fronts.each do |front|
      eventually("a server that shows pages") { control(front, "/cluster").then { |told| told["shows_pages"] && (!sharing || told["shared_cache"]["is_connected"]) } }
    end
  end

  def tier(front) = control(front, "/cluster")["shared_cache"]

  # The body, and what the cache says of it.
  def page(front, path, **fields)
    response = front.get(path, { "Host" => "shop.test" }.merge(fields.transform_keys { |name| name.to_s.tr("_", "-") }))
    [response.body, response["cache-status"].delete_prefix("paceline; ").sub(/ttl=-?\d+/, "ttl")]
  end

  SHARED = "hit; ttl; detail=shared".freeze
  RENDERED = "fwd=uri-miss; stored".freeze

  # Has one server render a page, and returns when the others can have it.
  def rendered(front, path, **fields)
    before = tier(front)["writes"]
    page(front, path, **fields).tap { eventually("#{path} to be shared") { tier(front)["writes"] > before } }
  end

  # Holds the answer with this number until something is put into the queue.
  def gate(path, number: 1) = Queue.new.tap { |queue| @gates[path] = { number: number, queue: queue } }

  def asked(path)
    all = Array.new(@asked.size) { @asked.pop }
    all.filter_map { |target, number| number if target == path }
  end

  def purge(front, *arguments) = command(front.dir, "purge", *arguments)

  def test_a_page_is_shown_by_servers_that_have_not_rendered_it
    fronts(3)
    first, second, third = @fronts
    assert_equal ["1", RENDERED], rendered(first, "/a")
    response = second.get("/a", "Host" => "shop.test")
    assert_equal ["1", '"1"'], [response.body, response["etag"]]
    assert_match(/\Apaceline; hit; ttl=\d+; detail=shared\z/, response["cache-status"])
    assert_operator Integer(response["age"]), :>=, 0
    assert_equal ["1", "hit; ttl"], page(second, "/a"), "now it is its own"
    assert_equal [1], asked("/a")
    # Its tags have come with it.
    assert_match(/2 other servers have confirmed/, purge(third, "--tag", "tag").first)
    assert_equal "fwd=uri-miss; stored", page(second, "/a").last
  end

  def test_variants_are_told_apart
    fronts(2)
    first, second = @fronts
    rendered(first, "/vary", X_Kind: "red")
    rendered(first, "/vary", X_Kind: "blue")
    @asked.clear
    assert_equal ["red 1", SHARED], page(second, "/vary", X_Kind: "red")
    assert_equal ["blue 2", SHARED], page(second, "/vary", X_Kind: "blue")
    assert_empty asked("/vary")
    assert_equal "green 3", page(second, "/vary", X_Kind: "green").first
  end

  def test_what_is_large_or_private_stays_where_it_is
    fronts(2, keys: "shared_cache_time = \"10s\"\nshared_cache_object = \"4KB\"")
    first, second = @fronts
    %w[/large /private /fails].each do |path|
      page(first, path)
      page(second, path)
      assert_equal [1, 2], asked(path), path
    end
    rendered(first, "/small")
    assert_equal 1, tier(first)["writes"]
    assert_equal 1, @valkey.cli("KEYS", "*:page:*").lines.size
  end

  def test_what_somebody_else_has_put_there_is_not_shown
    fronts(2, keys: "shared_cache_time = \"10s\"\nshared_cache_object = \"4KB\"")
    first, second = @fronts
    rendered(first, "/a")
    key = @valkey.cli("KEYS", "*:page:*").strip
    page = @valkey.cli("GETRANGE", key, "0", "35").strip
    read = tier(second)["bytes_read"]
    # Nothing, what is no page, what begins like one, and what is too large to be fetched.
    ["", "x", page].each.with_index(2) do |value, number|
      @valkey.cli("SET", key, value)
      assert_equal [number.to_s, RENDERED], page(second, "/a")
      eventually("it to be shared again") { @valkey.cli("STRLEN", key).to_i > 36 }
      purge(first, "--all")
    end
    @valkey.cli("SETRANGE", key, 300_000.to_s, "x")
    assert_equal ["5", RENDERED], page(second, "/a")
    assert_operator tier(second)["bytes_read"] - read, :<, 100_000
  end

  # Of another kind than a front's, by another program: the page is rendered, and shared from then on.
  def test_a_place_that_is_taken_by_something_else_is_used_again
    @valkey.cli("RPUSH", "{paceline:shop}:secret", "1")
    fronts(2)
    first, second = @fronts
    rendered(first, "/a")
    key = @valkey.cli("KEYS", "*:page:*").chomp
    [key, key.sub(":page:", ":lease:")].each do |place|
      @valkey.cli("DEL", key, place)
      @valkey.cli("RPUSH", place, "1")
      command(first.dir, "purge", "--all")
      assert_match(/fwd=uri-miss/, rendered(first, "/a").last, place)
      assert_equal SHARED, page(second, "/a").last, place
    end
    assert_equal [0, 0], @fronts.map { |front| tier(front)["errors"] }
  end

  def test_a_page_is_never_older_than_a_purge
    fronts(3)
    first, second, third = @fronts
    ways = { "url" => ["http://shop.test/a"], "tag" => ["--tag", "tag"], "prefix" => ["--prefix", "http://shop.test/"], "all" => ["--all"] }
    ways.each do |name, arguments|
      old, = rendered(first, "/a")
      page(first, "/a")
      kept = @valkey.cli("KEYS", "*:page:*").strip
      refute_empty kept
      purge(third, *arguments)
      assert_equal kept, @valkey.cli("KEYS", "*:page:*").strip, "the old page is still there"
      fresh, words = page(second, "/a")
      assert_equal [old.to_i + 1, RENDERED], [fresh.to_i, words], "purged by #{name}"
      # And it has taken the old one's place.
      assert_equal [fresh, SHARED], page(third, "/a")
      purge(third, "--all")
    end
    # A visitor's own change.
    rendered(first, "/a")
    before = page(first, "/a").first.to_i
    second.request(Net::HTTP::Post.new("/a", "Host" => "shop.test"))
    assert_operator page(second, "/a").first.to_i, :>, before
  end

  def test_what_is_purged_while_it_is_rendered_is_not_shared
    fronts(2)
    first, second = @fronts
    held = gate("/a")
    asking = Thread.new { page(first, "/a") }
    assert_equal ["/a", 1], take(@asked)
    assert_match(/1 other server has confirmed/, purge(second, "http://shop.test/a").first)
    held << 1
    assert_equal "1", asking.value.first
    assert_equal ["2", RENDERED], page(second, "/a")
    assert_equal ["2", SHARED], page(first, "/a")
    assert_equal 0, tier(first)["writes"]
  end

  def test_concurrent_misses_of_all_servers_are_one_request
    fronts(3)
    held = gate("/a")
    asking = @fronts.flat_map { |front| Array.new(20) { Thread.new { page(front, "/a") } } }
    @fronts.each { |front| eventually("20 requests") { control(front, "/requests")["requests"].size == 20 } }
    held << 1
    answers = asking.map(&:value)
    assert_equal ["1"], answers.map(&:first).uniq
    assert_equal [1], asked("/a")
    assert_equal({ RENDERED => 1, SHARED => 2, "fwd=uri-miss; collapsed" => 57 }, answers.map(&:last).tally)
  end

  def test_a_thousand_concurrent_misses_of_all_servers_are_one_request
    fronts(3)
    held = gate("/a")
    # The connections first: nobody waits for the page longer than five seconds.
    @sockets = @fronts.zip([334, 333, 333]).flat_map { |front, count| Array.new(count) { front.connect } }
    @sockets.each { |socket| socket.write("GET /a HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n") }
    eventually("1,000 requests") { @fronts.sum { |front| control(front, "/requests")["requests"].size } == 1000 }
    held << 1
    answers = @sockets.map { |socket| Timeout.timeout(PATIENCE) { Wire.response(socket) } }
    assert_equal [[200, "1"]], answers.map { |answer| [answer.status, answer.body] }.uniq
    assert_equal [1], asked("/a")
    words = answers.map { |answer| answer["cache-status"].delete_prefix("paceline; ").sub(/ttl=-?\d+/, "ttl") }
    assert_equal({ RENDERED => 1, SHARED => 2, "fwd=uri-miss; collapsed" => 997 }, words.tally)
  end

  def test_nobody_waits_for_what_is_nobody_elses
    fronts(2)
    held = gate("/private")
    first = Thread.new { page(@fronts[0], "/private") }
    take(@asked)
    second = Thread.new { page(@fronts[1], "/private") }
    eventually("it to wait") { control(@fronts[1], "/requests")["requests"].any? { |one| one["step"] == "waiting" } }
    held << 1
    assert_equal [%w[1 2], ["fwd=uri-miss; detail=private"]], [first, second].map(&:value).transpose.then { |bodies, words| [bodies, words.uniq] }
  end

  def test_nobody_waits_for_the_body_of_what_is_not_shared
    fronts(2, site: "cache_object = \"1KB\"\n")
    %w[no-cache stale search large].each do |why|
      path = "/begun/#{why}"
      first = Thread.new { page(@fronts[0], path) }
      take(@asked)
      eventually("#{path} to be each server's own") { leases == ["!"] }
      assert_equal "2", page(@fronts[1], path).first.strip
      @ends << 1
      assert_equal "1", first.value.first.strip
      @asked.clear
      @valkey.cli("DEL", *@valkey.cli("KEYS", "*:lease:*").split)
    end
  end

  def leases = @valkey.cli("KEYS", "*:lease:*").split.map { |key| @valkey.cli("GET", key).strip }

  def test_a_server_that_dies_while_it_renders_is_replaced
    fronts(2)
    first, second = @fronts
    gate("/a")
    left = Thread.new { page(first, "/a") rescue :left }
    take(@asked)
    waiting = Thread.new { page(second, "/a") }
    eventually("it to wait") { control(second, "/requests")["requests"].size == 1 }
    first.kill
    assert_equal ["2", RENDERED], waiting.value
    assert_equal :left, left.value
  end

  def test_a_page_that_comes_too_late_is_not_shared
    fronts(3)
    first, second, third = @fronts
    held = gate("/a")
    late = Thread.new { page(first, "/a") }
    take(@asked)
    first.signal(:STOP)
    assert_equal ["2", RENDERED], rendered(second, "/a"), "its permission has ended"
    held << 1
    first.signal(:CONT)
    assert_equal "1", late.value.first
    eventually("the late page to be refused") { tier(first)["late"] == 1 }
    assert_equal ["2", SHARED], page(third, "/a")
  end

  def test_without_valkey_requests_are_answered_and_it_is_left_alone
    fronts(1, keys: "shared_cache_time = \"200ms\"")
    front = @fronts.first
    rendered(front, "/a")
    @valkey.signal(:STOP)
    count = 0
    eventually("the shared cache to be skipped") do
      assert_equal RENDERED, page(front, "/miss-#{count += 1}").last
      front.output.include?("the shared cache is skipped for 1s")
    end
    assert_equal ["1", "hit; ttl"], page(front, "/a")
    assert_match(/^the shared cache is (skipped for .*|tried again): no answer in 200 ms$/, command(front.dir, "cluster").first)
    @valkey.signal(:CONT)
    eventually("the shared cache to be used") do
      page(front, "/miss-#{count += 1}")
      front.output.include?("the shared cache is used again")
    end
    told = tier(front)
    assert_operator told["skipped"], :>, 0
    assert_operator told["opened"], :>, 0
    assert_match(/^paceline_shared_cache_requests_total\{result="skipped"\} [1-9]/, metrics(front))
  end

  def metrics(front)
    UNIXSocket.open(File.join(front.dir, "tmp/paceline.sock")) do |io|
      io.write("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
      Timeout.timeout(PATIENCE) { io.read }
    end
  end

  def test_a_valkey_that_was_started_again_has_no_pages
    fronts(2)
    first, second = @fronts
    rendered(first, "/a")
    @valkey.stop
    @valkey.start
    refute_empty @valkey.cli("KEYS", "*:page:*").strip, "it has kept them, and perhaps lost purges"
    count = 0
    eventually("it to be used") { page(second, "/miss-#{count += 1}") && tier(second)["is_connected"] }
    assert_equal "2", page(second, "/a").first
  end

  def test_a_valkey_that_would_evict_purges_gets_no_pages
    @valkey.close
    @valkey = Valkey.new("--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru")
    fronts(2, sharing: false)
    @fronts.each { |front| front.wait_for(/the shared cache is skipped .*maxmemory-policy allkeys-lru.*: set volatile-lru/) }
    assert_equal [RENDERED] * 2, @fronts.map { |front| page(front, "/a").last }
    assert_equal "", @valkey.cli("KEYS", "*:page:*").strip
  end

  # Readers, and one who changes a page and purges it, at random: nobody gets a page that is older than a purge that was
  # confirmed before they asked.
  def test_no_reader_gets_a_page_from_before_a_confirmed_purge
    fronts(3)
    paths = %w[/one /two]
    paths.each { |path| @versions[path] = 1 }
    confirmed, done, wrong = paths.to_h { |path| [path, 1] }, false, Queue.new
    readers = @fronts.flat_map do |front|
      paths.map do |path|
        Thread.new do
          until done
            least = confirmed[path]
            got = page(front, path)
            wrong << [path, least, got] if got.first.to_i < least
          end
        end
      end
    end
    random = Random.new(1)
    40.times do
      path = paths.sample(random: random)
      @versions[path] += 1
      version = @versions[path]
      told = control(@fronts.sample(random: random), "/cache/purge", { url: "http://shop.test#{path}", wait: true })
      confirmed[path] = version if told["confirmed"]
    end
    done = true
    readers.each(&:join)
    assert_empty Array.new(wrong.size) { wrong.pop }
    assert_operator @fronts.sum { |front| tier(front)["hits"] }, :>, 0, "pages were shared"
    assert_operator confirmed.values.sum, :>, 30
  end
end
