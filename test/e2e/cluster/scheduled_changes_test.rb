# Pages that change several times, on two servers of a cluster by a real Valkey or Redis: what a page that is prepared says of the change after it counts, and changes
# are moved and called off, while visitors ask. One clock for both servers, which the test sets; what a page has to show follows from its changes and the clock.
require_relative "../support/control"
require_relative "../support/set_clock"
require_relative "../support/valkey"

class ScheduledChangesTest < Minitest::Test
  include Scenario
  include Control

  # Each page shows how many of its changes have come. Pages with even numbers say all that are to come, the others only the next one.
  APP = <<~'RUBY'.freeze
    FOLDER = ENV.fetch("CHANGES")
    run(lambda do |env|
      raise "the database is away" if File.exist?(File.join(FOLDER, "away"))
      number = Integer(File.basename(env["PATH_INFO"]))
      changes = File.read(File.join(FOLDER, number.to_s)).split.map { |at| Time.at(Integer(at)) }
      to_come = changes.select { |at| at > Time.now }.sort
      to_come.first(number.even? ? 16 : 1).each { |at| Paceline.changes_at(at) }
      [200, { "content-type" => "text/plain", "cache-control" => "public, max-age=86400", "surrogate-key" => "page-#{number}" }, [(changes.size - to_come.size).to_s]]
    end)
  RUBY

  PAGES = (0...40)

  # An answer of a server to a request for a page, by the servers' clock.
  Seen = Struct.new(:page, :asked, :answered, :status, :text, :is_hit)

  def setup
    skip "there is no valkey-server and no redis-server" unless Valkey.program
    if (why = SetClock.missing)
      skip why
    end
    @valkey = Valkey.new
    @sale = Time.at((Time.now.to_i / 3600 + 24) * 3600)
    @shared = app
    @clock = SetClock.new(@shared)
    # In four groups, a second after each other.
    @changes = PAGES.to_h { |page| [page, [0, 30, 3600].map { |second| second + page % 4 }] }
    @changes.each_key { |page| publish(page) }
    set(-300)
    @fronts = Array.new(2) { start }
    @fronts.each do |front|
      eventually("a server that shows and shares pages") do
        told = control(front, "/cluster")
        told["shows_pages"] && told["shared_cache"]["is_connected"]
      end
    end
  end

  def teardown
    super
    @valkey&.close
  end

  def start
    dir = app("config.ru" => APP, "paceline.toml" => <<~TOML)
      [cluster]
      url = "#{@valkey.url}"
      name = "shop"
      partition_ttl = "1h"
      shared_cache = true
      shared_cache_time = "10s"
    TOML
    serve(dir, "-w", "1", "-t", "2", env: @clock.env.merge("CHANGES" => @shared, "XDG_STATE_HOME" => File.join(dir, "state")))
  end

  # Seconds after the first sale has begun; what is due is done then.
  def set(seconds)
    @clock.set((@sale - Time.now).ceil + seconds)
    @fronts&.each { |front| control(front, "/schedule") }
  end

  # As an editor saves it.
  def publish(page)
    write(@shared, "new" => @changes[page].map { |second| (@sale + second).to_i }.join("\n"))
    File.rename(File.join(@shared, "new"), File.join(@shared, page.to_s))
  end

  # An editor changes when pages change; the application purges them, and somebody asks.
  def edit(pages)
    pages.each do |page|
      @changes[page] = yield(*@changes[page])
      publish(page)
      assert_match(/1 other server has confirmed it/, command(@fronts[0].dir, "purge", "--tag", "page-#{page}").first)
    end
    visit(pages)
  end

  def visit(pages)
    @fronts.each { |front| pages.each { |page| assert_equal "200", front.get("/#{page}", "Host" => "shop.test").code } }
  end

  # What a server says of each time, in seconds after the sale: { 0 => { page => state } }.
  def schedule(front)
    control(front, "/schedule")["sites"].values.flatten.to_h do |plan|
      [plan["at"] / 1000 - @sale.to_i, plan["pages"].to_h { |page| [Integer(File.basename(page["url"])), page["state"]] }]
    end
  end

  # When pages change up to `last`, as it has to be.
  def changes_until(last)
    @changes.each_with_object(Hash.new { |all, at| all[at] = {} }) { |(page, times), all| times.each { |at| all[at][page] = "ready" if at <= last } }
  end

  # Exactly what changes until then is prepared on both servers.
  def wait_until_prepared(last)
    @fronts.each do |front|
      eventually("each change up to #{last} s to be prepared") { schedule(front).select { |at, pages| at.between?(now, last) && pages.any? } == changes_until(last).select { |at, _| at > now } }
    end
  end

  def now = (@clock.now - @sale).floor

  # Visitors ask both servers for all pages until so many seconds after the sale.
  def visitors_until(second)
    ends = @sale + second
    @fronts.product([1, 2]).map { |front, seed| Thread.new { ask(front, Random.new(seed), ends) } }.flat_map(&:value)
  end

  def ask(front, random, ends)
    socket, seen = front.connect, []
    while @clock.now < ends
      PAGES.to_a.shuffle(random: random).each do |page|
        asked = @clock.now
        socket.write("GET /#{page} HTTP/1.1\r\nHost: shop.test\r\n\r\n")
        answer = Wire.response(socket)
        seen << Seen.new(page, asked, @clock.now, answer.status, answer.body, answer["cache-status"].include?("; hit"))
        assert_operator answer["cache-status"][/ttl=(-?\d+)/, 1].to_i, :<=, longest(seen.last), "beyond the next change" if seen.last.is_hit
      end
    end
    seen
  ensure
    socket&.close
  end

  # Seconds up to the next change, or to the one after it if that came meanwhile.
  def longest(seen)
    [seen.asked, seen.answered].map { |time| @changes[seen.page].map { |second| @sale + second - time }.select(&:positive?).min&.ceil || Float::INFINITY }.max
  end

  def shows(page, time) = @changes[page].count { |second| @sale + second <= time }

  # No page of another time, and no miss in the second of a change. Returns how many changes were seen.
  def assert_right(seen)
    wrong = seen.reject { |one| one.status == 200 && (shows(one.page, one.asked)..shows(one.page, one.answered)).cover?(Integer(one.text, 10)) }
    assert_equal [], wrong.first(3), "#{wrong.size} of #{seen.size} answers"
    in_second = seen.select { |one| @changes[one.page].any? { |second| (one.asked - @sale).floor == second } }
    missed = in_second.reject(&:is_hit)
    assert_equal [], missed.first(3), "#{missed.size} of #{in_second.size} answers in the second of a change"
    in_second.map { |one| [one.page, (one.asked - @sale).floor] }.uniq.size
  end

  def test_three_changes_of_forty_pages_with_moves_under_load
    visit(PAGES)
    wait_until_prepared(60)
    assert_equal [3600, 3601, 3602, 3603], schedule(@fronts[0]).keys.sort.last(4), "what only the page of the second change says is known"

    # To shortly after the first one, to later, and called off.
    edit(0..3) { |first, second, third| [first, second - 10, third] }
    edit(4..7) { |first, second, third| [first, second + 20, third] }
    edit(8..11) { |first, _, third| [first, third] }
    edit(12..15) { |_, second, third| [second, third] }
    wait_until_prepared(60)

    set(-2)
    assert_equal 36, assert_right(visitors_until(5))
    set(18)
    assert_equal 4 + 28, assert_right(visitors_until(35))
    # The clock is set over a change, back over it, and again.
    set(56)
    assert_right(visitors_until(57))
    set(40)
    assert_right(visitors_until(41))
    set(56)
    assert_right(visitors_until(57))

    # The application is away when the third is to be prepared, and here again at the last look but two.
    write(@shared, "away" => "")
    set(3600 - 400)
    @fronts.each { |front| eventually("it to fail") { schedule(front)[3600].to_h.values.include?("dynamic") } }
    assert_right(visitors_until(3600 - 399))
    File.delete(File.join(@shared, "away"))
    set(3600 - 59)
    wait_until_prepared(3610)
    set(3598)
    assert_equal 40, assert_right(visitors_until(3605))
  end
end
