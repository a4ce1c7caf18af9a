# `paceline maintenance --cluster`: three servers that are closed and opened together by a real Valkey or Redis, servers that were
# away, and a Valkey that is away or has forgotten.
require_relative "../support/members"

class ClosedEverywhereTest < Minitest::Test
  include Scenario
  include Control
  include Members

  def statuses = @fronts.map { |front| Integer(front.get("/").code) }

  def maintenance(front, *arguments) = command(front.dir, "maintenance", *arguments)

  def site(front) = File.basename(front.dir)

  def test_all_servers_are_closed_and_opened_together
    fronts(3)
    File.write(File.join(@fronts[1].dir, "closed.html"), "<p>our own page")
    printed = maintenance(@fronts[1], "on", "--cluster", "--page", "closed.html", "--allow", "192.0.2.7", "--retry-after", "60")
    assert_equal ["all sites are closed for maintenance on all servers of shop: 3 of 3 have confirmed it\n", 0], printed
    @fronts.each do |front|
      answer = front.get("/", "Accept" => "text/html")
      assert_equal ["503", "<p>our own page", "60"], [answer.code, answer.body, answer["retry-after"]]
      assert_equal %w[200 200], [front.get("/up").code, front.get("/", "X-Forwarded-For" => "192.0.2.7").code]
      assert_equal "#{site(front)} is closed for maintenance, on all servers, but for 192.0.2.7\n", maintenance(front)[0]
      assert_match(/^  CLOSED for maintenance since \d+ s on all servers, but for 192\.0\.2\.7$/, command(front.dir, "status")[0])
      front.wait_for(/#{site(front)} is closed for maintenance on all servers of the cluster$/)
    end
    screen, = command(@fronts[0].dir, "cluster")
    assert_match(/^closed for maintenance on all servers: all sites$/, screen)
    assert_equal 3, screen.scan(/closed: 1 of 1$/).size, screen
    assert_equal 3, maintenance(@fronts[2], "status", "--cluster")[0].scan(/ 1 of 1 sites are closed$/).size
    assert_equal ["all sites are open again on all servers of shop: 3 of 3 have confirmed it\n", 0], maintenance(@fronts[2], "off", "--cluster")
    assert_equal [200] * 3, statuses
    assert_equal "#{site(@fronts[0])} is open\n", maintenance(@fronts[0])[0]
  end

  # As by a server that ended before the others had heard of it.
  def test_a_change_that_a_server_has_not_heard_yet_is_shown
    fronts(2)
    first, second = @fronts
    maintenance(first, "on", "--cluster")
    closed = @valkey.cli("HGET", "{paceline:shop}:closed", "sites").chomp
    maintenance(first, "off", "--cluster")
    @valkey.cli("HSET", "{paceline:shop}:closed", "version", "100-elsewhere", "sites", closed)
    assert_match(/ is closed for maintenance, on all servers\n\z/, maintenance(second)[0])
    maintenance(first, "off", "--cluster")
    @valkey.cli("HSET", "{paceline:shop}:closed", "version", "200-elsewhere", "sites", closed)
    assert_match(/^closed for maintenance on all servers: all sites$/, command(second.dir, "cluster")[0])
  end

  def test_a_server_that_is_silent_is_named_and_follows
    fronts(3, ttl: "400ms")
    third = @fronts[2]
    third.signal(:STOP)
    eventually("it to be silent") { member(@fronts[0], third)["is_silent"] }
    out, status = maintenance(@fronts[0], "on", "--cluster")
    assert_equal 1, status
    assert_match(/: 2 of 3 have confirmed it\nnot confirmed: \S+ \(pid #{third.pid}\): silent for \d+ s\. It follows as soon as it reaches/, out)
    assert_equal [503, 503], @fronts.first(2).map { |front| Integer(front.get("/").code) }
    third.signal(:CONT)
    eventually("it to follow") { third.get("/").code == "503" }
  end

  def test_a_server_that_starts_later_is_closed_from_its_first_request
    fronts(2)
    second = @fronts[1]
    second.stop
    assert_equal ["all sites are closed for maintenance on all servers of shop: this one is the only one\n", 0], maintenance(@fronts[0], "on", "--cluster")
    again = start(second.dir, ready: false)
    assert_equal "503", again.get("/").code
    # It remembers it, whatever becomes of Valkey.
    again.stop
    @valkey.kill
    assert_equal "503", start(second.dir, ready: false).get("/").code
    assert_match(/is closed for maintenance, on all servers\n.* can't be reached: /, maintenance(second)[0])
    maintenance(second, "off")
    assert_match(/is still closed for maintenance: it is closed on all servers/, maintenance(second, "off")[0])
  end

  def test_a_valkey_that_has_forgotten_it_gets_it_back
    fronts(2)
    maintenance(@fronts[0], "on", "--cluster")
    @valkey.kill
    @valkey.start
    eventually("what is closed to be there again") { @valkey.cli("HGET", "{paceline:shop}:closed", "version").start_with?("1-") }
    assert_equal [503, 503], statuses
    late = start(app(files))
    assert_equal "503", late.get("/").code
    assert_match(/\A.* open again on all servers of shop: 3 of 3 have confirmed it\n\z/, maintenance(late, "off", "--cluster")[0])
    assert_equal [200] * 2, statuses
  end

  # Longer than any that a server writes: it can't be read, and so is no version.
  def test_a_version_without_end_is_replaced
    fronts(2)
    maintenance(@fronts[0], "on", "--cluster")
    @valkey.cli("HSET", "{paceline:shop}:closed", "version", "9" * 1000)
    assert_equal 0, maintenance(@fronts[1], "off", "--cluster").last
    assert_equal [200] * 2, statuses
  end

  def test_neither_opens_what_the_other_has_closed
    fronts(2)
    first, second = @fronts
    maintenance(second, "on", "--allow", "192.0.2.0/24")
    assert_equal [200, 503], statuses
    maintenance(first, "on", "--cluster", "--allow", "192.0.2.7")
    assert_equal %w[200 503], %w[192.0.2.7 192.0.2.8].map { |address| second.get("/", "X-Forwarded-For" => address).code }, "both have to let in"
    assert_match(/, by this server, but for 192\.0\.2\.0\/24, and on all servers, but for 192\.0\.2\.7\n\z/, maintenance(second)[0])
    assert_equal 1, member(first, second)["status"]["closed_here"]
    out, status = maintenance(first, "off", "--cluster")
    assert_equal 0, status
    assert_match(/\(pid #{second.pid}\): 1 site is still closed by that server/, out)
    assert_equal [200, 503], statuses
    maintenance(second, "off")
    assert_equal [200, 200], statuses
  end

  def test_one_site_of_several
    toml = "[[site]]\nroot = \"one\"\nhost = \"one.test\"\n[[site]]\nroot = \"two\"\nhost = \"two.test\"\n"
    fronts(2, files: { "one/config.ru" => Members::APP, "one/version" => "old", "two/config.ru" => Members::APP, "two/version" => "old" }, toml: toml)
    both = -> { @fronts.map { |front| %w[one.test two.test].map { |host| Integer(front.get("/", "Host" => host).code) } } }
    assert_match(/\Aone\.test is closed for maintenance on all servers of shop: 2 of 2/, maintenance(@fronts[0], "on", "--cluster", "--site", "one.test")[0])
    assert_equal [[503, 200]] * 2, both.call
    maintenance(@fronts[0], "on", "--cluster")
    maintenance(@fronts[1], "off", "--cluster", "--site", "one.test")
    assert_equal [[200, 503]] * 2, both.call
    assert_match(/^closed for maintenance on all servers: all sites but one\.test$/, command(@fronts[0].dir, "cluster")[0])
    out, status = maintenance(@fronts[0], "on", "--cluster", "--site", "three.test")
    assert_equal [1, true], [status, out.include?('there is no site "three.test"; the sites are: one.test, two.test')]
  end

  def test_without_valkey_nothing_changes
    fronts(2)
    @valkey.kill
    out, status = maintenance(@fronts[0], "on", "--cluster")
    assert_equal 1, status
    assert_match(/can't be reached: .*\. As far as this server knows, nothing has changed$/, out)
    assert_equal [200, 200], statuses
    @fronts.each { |front| front.wait_for(/can't be reached/) }
    @valkey.start
    @fronts.each { |front| front.wait_for(/is reached again/) }
    assert_equal [200, 200], statuses
  end

  def test_a_server_alone_says_so_and_what_to_do
    alone = serve(app("config.ru" => Members::APP, "version" => "old"))
    out, status = maintenance(alone, "on", "--cluster")
    assert_equal 1, status
    assert_match(/this server is alone: a table \[cluster\] .*use `paceline maintenance` without --cluster/, out)
    assert_equal "200", alone.get("/").code
  end
end
