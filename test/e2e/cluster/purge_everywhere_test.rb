# Several servers that share their purges by a real Valkey or Redis: each way to purge, servers that were away, and a
# Valkey that is away, empty or has forgotten.
require_relative "../support/control"
require_relative "../support/origin"
require_relative "../support/valkey"

class PurgeEverywhereTest < Minitest::Test
  include Scenario
  include Control

  def setup
    skip "there is no valkey-server and no redis-server" unless Valkey.program
    @valkey = Valkey.new
    @asked = Queue.new
    # Each answer has a number of its own. A page that is asked for again keeps it, unless the page has changed.
    @numbers, @changed = Hash.new(0), Hash.new(0)
    @origin = Origin.new do |link, _|
      while (head = link.head)
        method, target, = head.line.split
        link.body(head)
        @asked << target
        next link.write("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n") if @fails
        if (known = head["if-none-match"]) && known[/\d+/].to_i > @changed[target]
          next link.write("HTTP/1.1 304 Not Modified\r\nETag: #{known}\r\n\r\n")
        end
        number = method == "GET" ? @numbers[target] += 1 : 0
        link.answer(number.to_s, fields: [%(ETag: "#{number}"), "Cache-Control: max-age=600, stale-while-revalidate=600", "Surrogate-Key: tag#{target.tr("/", "-")}"])
      end
    end
  end

  def teardown
    @fronts&.each { |front| Process.kill(:CONT, front.pid) unless front.ended? }
    super
    @origin&.close
    @valkey&.close
  end

  # Starts so many servers; returns when all of them show pages.
  def fronts(count, ttl: "1h", url: @valkey.url, top: "")
    settings = "#{top}\n[cluster]\nurl = \"#{url}\"\nname = \"shop\"\npartition_ttl = \"#{ttl}\"\n[[site]]\nupstream = \"#{@origin.url}\"\n"
    @fronts = Array.new(count) { serve(app("paceline.toml" => settings), ready: false) }
    @fronts.each { |front| shows_pages(front) }
  end

  def shows_pages(front) = eventually("a server that shows pages") { control(front, "/cluster")["shows_pages"] }

  # The number of the answer, and whether it came from the cache.
  def page(front, path)
    response = front.get(path, "Host" => "shop.test")
    [Integer(response.body), response["cache-status"].include?("; hit")]
  end

  # Has the pages in the caches of all servers; their numbers.
  def fill(*paths)
    @fronts.to_h do |front|
      numbers = paths.to_h { |path| [path, eventually("#{path} from the cache") { page(front, path).then { |number, hit| number if hit } }] }
      [front, numbers]
    end
  end

  # How often the application is asked for a path while the block runs.
  def asked(path)
    @asked.clear
    yield
    Array.new(@asked.size) { @asked.pop }.count(path)
  end

  def purge(front, *arguments) = command(front.dir, "purge", *arguments)

  def post(front, path) = front.request(Net::HTTP::Post.new(path, "Host" => "shop.test"))

  def test_a_purge_by_command_has_reached_all_servers_when_it_returns
    fronts(3)
    [["http://shop.test/a"], ["--tag", "tag-a"], ["--prefix", "http://shop.test/a"], ["--all"]].each do |arguments|
      before = fill("/a")
      printed = purge(@fronts[1], *arguments)
      assert_equal ["1 response purged here, and 2 other servers have confirmed it\n", 0], printed, arguments.inspect
      @fronts.each { |front| assert_operator page(front, "/a").first, :>, before[front]["/a"], arguments.inspect }
    end
    before = fill("/a")
    purge(@fronts[0], "--tag", "tag-a", "--soft")
    @asked.clear
    @fronts.each { |front| assert_equal [before[front]["/a"], true], page(front, "/a"), "shown while it is revalidated" }
    eventually("each server to revalidate it") { @asked.size >= 3 }
  end

  def test_purges_of_applications_and_visitors_reach_all_servers
    fronts(3)
    ways = {
      "the application" => -> { assert control(@fronts[0], "/cache/purge", { tag: "tag-a" })["purged"] },
      "a visitor" => -> { post(@fronts[2], "/a") },
    }
    ways.each do |name, way|
      before = fill("/a", "/b")
      way.call
      @fronts.each do |front|
        eventually("a new page after a purge of #{name}") { page(front, "/a").first > before[front]["/a"] }
        assert_equal before[front]["/b"], page(front, "/b").first, "#{name}: another page"
      end
    end
  end

  def test_a_server_that_was_stopped_replays_what_it_has_missed
    fronts(2, ttl: "400ms")
    before = fill("/a", "/b")
    first, second = @fronts
    second.signal(:STOP)
    @changed["/a"] = @numbers["/a"]
    printed, status = purge(first, "http://shop.test/a")
    assert_equal 0, status
    assert_match(/\A1 response purged here; no other .*\nsilent, so asking the application .*: \S+ \(pid #{second.pid}\)\n\z/, printed)
    second.signal(:CONT)
    number, = page(second, "/a")
    assert_operator number, :>, before[second]["/a"], "the first request after it was stopped"
    shows_pages(second)
    assert_equal before[second]["/b"], page(second, "/b").first, "what was not purged is still there"
    refute_match(/dropped/, second.output)
  end

  def test_a_server_is_not_waited_for_if_nobody_wants_to
    fronts(2)
    before = fill("/a")
    first, second = @fronts
    second.signal(:STOP)
    assert_equal ["1 response purged here; the other servers follow\n", 0], purge(first, "http://shop.test/a", "--no-wait")
    second.signal(:CONT)
    eventually("a new page") { page(second, "/a").first > before[second]["/a"] }
  end

  def test_a_server_that_has_missed_too_much_drops_everything
    fronts(2)
    before = fill("/a", "/b")
    first, second = @fronts
    second.signal(:STOP)
    # Else Valkey writes the entry into its socket, where it finds it when it goes on.
    @valkey.cli("CLIENT", "KILL", "TYPE", "normal")
    purge(first, "http://shop.test/a", "--no-wait")
    eventually("the purge in the journal") { @valkey.cli("XLEN", "{paceline:shop}:journal").to_i == 1 }
    @valkey.cli("XTRIM", "{paceline:shop}:journal", "MAXLEN", "0")
    second.signal(:CONT)
    second.wait_for(/all cached pages are dropped: the entries after 0 are no longer in the journal/)
    %w[/a /b].each { |path| assert_operator page(second, path).first, :>, before[second][path], path }
  end

  def test_without_valkey_pages_are_shown_for_partition_ttl
    fronts(2)
    before = fill("/a")
    @valkey.kill
    @fronts.each do |front|
      front.wait_for(/Cluster shop: #{@valkey.socket} can't be reached: .* for 1h, then/)
      assert_equal [before[front]["/a"], true], page(front, "/a")
    end
  end

  def test_without_valkey_for_longer_the_application_is_asked
    fronts(2, ttl: "300ms")
    first, second = @fronts
    purge(first, "--tag", "none")
    before = fill("/a", "/b", "/c")
    @valkey.stop
    @fronts.each do |front|
      eventually("the application to be asked") { front.get("/a", "Host" => "shop.test")["cache-status"].include?("detail=cluster") }
      assert_equal 3, asked("/a") { 3.times { assert_equal [before[front]["/a"], false], page(front, "/a") } }, "each request asks it"
    end
    @fails = true
    assert_equal "503", first.get("/a", "Host" => "shop.test").code, "nor does a page take the place of its failure"
    @fails = false
    printed, status = purge(first, "http://shop.test/b")
    assert_equal 1, status
    assert_match(/1 response is purged on this front, but the cluster's server can't be reached: .*The others get the purge as soon as/, printed)
    assert_equal({ "purged" => 0, "confirmed" => false }, control(first, "/cache/purge", { tag: "none" }), "nobody waits")

    @valkey.start
    @fronts.each { |front| shows_pages(front) }
    second.wait_for(/is reached again/)
    eventually("the purge to arrive") { page(second, "/b").first > before[second]["/b"] }
    assert_equal before[second]["/c"], page(second, "/c").first, "what was not purged is still there"
    @fronts.each { |front| refute_match(/dropped/, front.output) }
  end

  def test_a_server_that_may_not_read_the_purges_says_so
    fronts(1, ttl: "400ms")
    front, = @fronts
    fill("/a")
    @valkey.cli("ACL", "SETUSER", "default", "-xread")
    front.wait_for(/Cluster shop: purges can't be read from #{Regexp.escape(@valkey.socket)}, though it answers: it answers NOPERM\./)
    eventually("a page that is shown, since nothing was purged") { page(front, "/a").last }
    purge(front, "--tag", "another", "--no-wait")
    eventually("a page that is not shown") { !page(front, "/a").last }
    @valkey.cli("ACL", "SETUSER", "default", "+xread")
    front.wait_for(/Cluster shop: purges are read again/)
    shows_pages(front)
    assert_equal 1, front.output.scan("purges can't be read").size
  end

  def test_an_empty_valkey_has_everything_dropped
    fronts(2)
    purge(@fronts.first, "--tag", "none")
    before = fill("/a")
    @valkey.kill
    @valkey.start
    @fronts.each do |front|
      front.wait_for(/all cached pages are dropped: the journal was emptied/)
      assert_operator page(front, "/a").first, :>, before[front]["/a"]
    end
    eventually("both servers") { control(@fronts.first, "/cluster")["members"].size == 2 }
    fill("/b")
    assert_match(/1 other server has confirmed/, purge(@fronts.last, "http://shop.test/b").first, "and goes on")
  end

  # Its lease is from before, and Valkey does not know of it any more.
  def test_a_server_that_has_not_come_back_to_an_empty_valkey_is_waited_for
    fronts(2, ttl: "2s")
    first, second = @fronts
    purge(first, "--tag", "none")
    fill("/a")
    second.signal(:STOP)
    @valkey.kill
    @valkey.start
    first.wait_for(/all cached pages are dropped: the journal was emptied/)
    printed, status = purge(first, "http://shop.test/a")
    assert_equal 0, status
    assert_match(/\nsilent, so asking the application .*: \S+ \(pid #{second.pid}\)\n\z/, printed)
    @asked.clear
    second.signal(:CONT)
    page(second, "/a")
    assert_equal "/a", @asked.pop(true), "its lease has ended"
  end

  def test_pages_on_disk_are_purged_by_what_came_while_the_server_was_down
    fronts(2, top: "cache_disk = \"8MB\"\ncache_dir = \"cache\"")
    before = fill("/a", "/b")
    first, second = @fronts
    eventually("the pages on disk") { control(second, "/cache/stats")["disk"]["responses"] == 2 }
    assert_equal 0, second.stop.exitstatus
    assert_match(/no other server shows pages/, purge(first, "http://shop.test/a").first, "one that has left is not waited for")
    again = serve(second.dir, ready: false)
    shows_pages(again)
    assert_operator page(again, "/a").first, :>, before[second]["/a"]
    assert_equal before[second]["/b"], page(again, "/b").first
  end

  def test_an_upgrade_keeps_pages_and_replays_what_came_meanwhile
    fronts(2)
    before = fill("/a", "/b")
    first, second = @fronts
    _, status = command(second.dir, "upgrade")
    assert_equal 0, status
    assert_match(/confirmed|no other/, purge(first, "http://shop.test/a").first)
    second.wait_for(/Replaced: /)
    eventually("the new server") { control(second, "/cluster").then { |cluster| cluster["shows_pages"] && cluster["members"].none? { |member| member["pid"] == second.pid } } }
    assert_operator page(second, "/a").first, :>, before[second]["/a"]
    assert_equal before[second]["/b"], page(second, "/b").first, "what was not purged is still there"
  end

  def test_a_screen_shows_the_servers_and_no_secret
    secret = "open-sesame"
    @valkey.close
    @valkey = Valkey.new("--requirepass", secret)
    fronts(2, url: @valkey.url("?pass=#{secret}"))
    screen, status = command(@fronts.first.dir, "cluster")
    assert_equal 0, status
    assert_match(/\Ashop, by #{@valkey.socket}: 2 servers\nthis server shows pages from its cache\npurges in flight: 0 to send, 0 to be confirmed\n/, screen)
    @fronts.each { |front| assert_match(/^\S+ pid #{front.pid}( this)? +\d+\.\d+\.\d+ +0 +0 +0  \d+ s ago$/, screen) }
    json, = command(@fronts.first.dir, "cluster", "--json")
    assert_equal @fronts.map(&:pid).sort, JSON.parse(json)["members"].map { |member| member["pid"] }.sort
    checked, = command(@fronts.first.dir, "check")
    @valkey.kill
    @fronts.first.wait_for(/can't be reached/)
    lost, = command(@fronts.first.dir, "cluster")
    assert_match(/not reached: /, lost)
    [screen, json, checked, lost, *@fronts.map(&:output)].each { |text| refute_includes text, secret }
  end

  # What another program has written there: an entry with a number that no other can follow, numbers that are none, values of another kind.
  def test_purges_go_on_after_somebody_has_spoiled_the_journal
    fronts(2)
    journal, last, members, restart = %w[journal end members restart].map { |name| "{paceline:shop}:#{name}" }
    spoils = {
      "a number that none can follow" => -> { @valkey.cli("XADD", journal, "18446744073709551615-0", "order", "{}") },
      "no number" => -> { @valkey.cli("HSET", last, "number", "many") },
      "a number beyond all" => -> { @valkey.cli("HSET", last, "number", "9" * 20) },
      "an order until no time" => -> { @valkey.cli("HSET", restart, "to", @valkey.cli("HKEYS", members).lines(chomp: true).first, "until", "many") },
      "a string for the journal" => -> { @valkey.cli("SET", journal, "spoiled") },
      "a string for its end" => -> { @valkey.cli("SET", last, "spoiled") },
      "a mark without end" => -> { @valkey.cli("HSET", last, "mark", "x" * 100_000) }
    }
    purge(@fronts[0], "http://shop.test/a")
    spoils.each do |name, spoil|
      before = fill("/a")
      spoil.call
      eventually("a purge after #{name}") { purge(@fronts[0], "http://shop.test/a").last.zero? }
      @fronts.each { |front| eventually("a new page after #{name}") { page(front, "/a").first > before[front]["/a"] } }
    end
  end

  # What another program has put among the servers: one that spoke at a time to come, and more of them than there can be.
  def test_members_that_are_no_servers_keep_nobody_waiting
    fronts(2)
    members = "{paceline:shop}:members"
    ghost = %q(99999999999999 1000 {"id":"ghost%d","host":"ghost","applied":0})
    @valkey.cli("HSET", members, "ghost", ghost)
    eventually("a purge that waits for no ghost") { purge(@fronts[0], "http://shop.test/a").last.zero? }
    @valkey.cli("EVAL", "for at = 1, 3000 do redis.call('HSET', KEYS[1], at, string.format(ARGV[1], at)) end", "1", members, ghost)
    eventually("a purge in spite of a crowd") { purge(@fronts[0], "http://shop.test/a") == ["0 responses purged here, and 1 other server has confirmed it\n", 0] }
    assert_equal "2", @valkey.cli("HLEN", members).strip
  end

  # What a program that may write to Valkey puts there is as long as it likes. No server holds it in memory, and purges go on.
  def test_entries_without_end_are_not_read
    fronts(2)
    journal = "{paceline:shop}:journal"
    purge(@fronts[0], "http://shop.test/a")
    # What is no text is beside it, and is short enough to be read.
    long = "return redis.call('XADD', KEYS[1], ARGV[1], 'order', string.rep('x', 90000000), 'mark', 'm', 'from', '\\255', 'more', string.rep('y', 30000000))"
    before = fill("/a")
    peaks = @fronts.map { |front| peak(front) }
    @valkey.cli("EVAL", long, "1", journal, "2-0")
    @fronts.zip(peaks) do |front, peak|
      eventually("a new page") { page(front, "/a").first > before[front]["/a"] }
      assert_operator peak(front) - peak, :<, 30_000, "kilobytes of memory"
    end
    before = fill("/a")
    eventually("a purge that all have confirmed") { purge(@fronts[0], "http://shop.test/a").last.zero? }
    @fronts.each { |front| eventually("a new page after a purge") { page(front, "/a").first > before[front]["/a"] } }
  end

  # Most memory that it ever had, kilobytes.
  def peak(front) = File.read("/proc/#{front.pid}/status")[/VmHWM:\s+(\d+)/, 1].to_i

  def test_a_server_alone_says_so
    alone = serve(app("paceline.toml" => "[[site]]\nupstream = \"#{@origin.url}\"\n"), ready: false)
    printed, status = command(alone.dir, "cluster")
    assert_equal 1, status
    assert_match(/this server is alone: a table \[cluster\]/, printed)
    assert_equal ["0 responses purged\n", 0], purge(alone, "--all")
    assert_equal "0", @valkey.cli("DBSIZE").strip[/\d+/]
  end
end
