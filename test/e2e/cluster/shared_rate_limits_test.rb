# Several servers with one rate limit: whom they let in together, and what each does alone while Valkey is late or away.
require_relative "../support/control"
require_relative "../support/origin"
require_relative "../support/valkey"

class SharedRateLimitsTest < Minitest::Test
  include Scenario
  include Control

  LIMIT = 6

  def setup
    skip "there is no valkey-server and no redis-server" unless Valkey.program
    @valkey = Valkey.new
    @origin = Origin.new do |link, _|
      while (head = link.head)
        link.body(head)
        link.answer("in", fields: ["Cache-Control: no-store"])
      end
    end
  end

  def teardown
    @valkey&.signal(:CONT) if @valkey&.pid
    super
    @origin&.close
    @valkey&.close
  end

  # Two servers that share their limits, unless a test machine is slower than `time`.
  def fronts(time: "10s")
    limits = { "/" => "10000/s", "/a" => "#{LIMIT}/h", "/b" => "#{LIMIT}/h", "/c" => "#{LIMIT}/h" }
    limits = limits.map { |path, rate| "[[site.rate_limit]]\npath = \"#{path}\"\nrate = \"#{rate}\"\n" }.join
    settings = <<~TOML
      [cluster]
      url = "#{@valkey.url}"
      name = "shop"
      shared_rate_limits = true
      shared_cache_time = "#{time}"
      [[site]]
      name = "shop"
      upstream = "#{@origin.url}"
      #{limits}
    TOML
    @fronts = Array.new(2) { serve(app("paceline.toml" => settings), ready: false) }
    @fronts.each { |front| eventually("a server that shares its limits") { rates(front)["is_connected"] } }
  end

  def rates(front) = control(front, "/cluster")["shared_rate_limits"]

  def ask(front, path) = front.get(path, "Host" => "shop.test")

  # The status of each of so many requests that the servers get in turn.
  def spread(path, count) = Array.new(count) { |number| ask(@fronts[number % 2], path).code }

  def test_the_requests_of_all_servers_count
    fronts
    assert_equal ["200"] * LIMIT + ["429"] * LIMIT, spread("/a", 2 * LIMIT)
    refused = ask(@fronts[0], "/a")
    assert_includes 1..3600 / LIMIT, Integer(refused["retry-after"])
    assert_equal "200", ask(@fronts[0], "/b").code, "another limit"
    assert_equal LIMIT + 1, @fronts.sum { |front| rates(front)["admitted"] }
    # The server that got the last token knows it, and the other one was told once.
    assert_equal 1, @fronts.sum { |front| rates(front)["refused"] }
    keys = @valkey.cli("KEYS", "*:rate:*").lines(chomp: true)
    assert(keys.all? { |key| key.start_with?("{paceline:shop}:rate:shop /") && @valkey.cli("PTTL", key).to_i > 0 }, keys.inspect)
    screen, = command(@fronts[0].dir, "cluster")
    assert_match(/^shared rate limits: \d+ admitted, \d+ refused, 0 errors, 0 skipped$/, screen)
    metrics = UNIXSocket.open(File.join(@fronts[0].dir, "tmp/paceline.sock")) do |io|
      io.write("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
      io.read
    end
    assert_match(/^paceline_shared_rate_limit_requests_total\{result="refused"\} 1$/, metrics)
  end

  def test_without_valkey_each_server_limits_alone
    fronts
    assert_equal ["200"] * 2, spread("/a", 2)
    @valkey.kill
    assert_equal ["200"] * 2 * LIMIT + ["429"] * 2, spread("/b", 2 * LIMIT + 2)
    @fronts.each { |front| front.wait_for(/Cluster shop: rate limits count this server's own requests alone for .*, and longer if that does not help: /) }
    # What was counted before is not forgotten: of the two requests each server knows one that was its own, and the other from Valkey.
    left = @fronts.map { |front| Array.new(LIMIT) { ask(front, "/a").code }.count("200") }
    assert_equal [LIMIT - 1, LIMIT - 2], left

    @valkey.start
    @fronts.each do |front|
      eventually("limits that are shared again") { ask(front, "/") && rates(front).then { |told| told["is_connected"] && !told["trouble"] } }
      front.wait_for(/Cluster shop: rate limits count the requests of all servers again/)
    end
    assert_equal ["200"] * LIMIT + ["429"] * LIMIT, spread("/c", 2 * LIMIT)
  end

  def test_a_valkey_that_is_late_keeps_nobody_waiting
    fronts(time: "20ms")
    @valkey.signal(:STOP)
    assert_equal ["200"] * 2 * LIMIT + ["429"] * 2, spread("/a", 2 * LIMIT + 2)
    @fronts.each { |front| front.wait_for(/rate limits count this server's own requests alone for .*: no answer in 20 ms/) }
  end

  # What another program has written in the buckets' places: they count as full, and Valkey is asked as before.
  def test_a_bucket_that_no_server_has_written_is_full
    fronts
    spread("/a", 2)
    key = @valkey.cli("KEYS", "*:rate:shop /a *").chomp
    { "a list" => -> { @valkey.cli("RPUSH", key, "1") }, "no number" => -> { @valkey.cli("SET", key, "nan") }, "a long text" => -> { @valkey.cli("SET", key, "9" * 100_000) } }.each do |name, write|
      @valkey.cli("DEL", key)
      write.call
      assert_equal %w[200 200], spread("/a", 2), name
      assert_match(/\A\d+\n\z/, @valkey.cli("GET", key), name)
    end
    assert_equal 0, @fronts.sum { |front| rates(front)["errors"] }
  end

  def test_limits_are_each_servers_own_unless_they_are_shared
    settings = "[cluster]\nurl = \"#{@valkey.url}\"\n[[site]]\nname = \"shop\"\nupstream = \"#{@origin.url}\"\n[[site.rate_limit]]\npath = \"/a\"\nrate = \"#{LIMIT}/h\"\n"
    @fronts = Array.new(2) { serve(app("paceline.toml" => settings), ready: false) }
    assert_equal ["200"] * 2 * LIMIT + ["429"] * 2, spread("/a", 2 * LIMIT + 2)
    assert_nil rates(@fronts[0])
  end
end
