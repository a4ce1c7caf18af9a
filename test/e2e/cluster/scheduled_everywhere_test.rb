# Pages that change at a known time, on several servers of a cluster by a real Valkey or Redis: a copy of one server's application renders each for all of them, also
# again, and after a purge; and each server does without the others when one dies, or Valkey is away. One clock for all servers, which the test sets.
require_relative "../support/control"
require_relative "../support/set_clock"
require_relative "../support/valkey"

class ScheduledEverywhereTest < Minitest::Test
  include Scenario
  include Control

  # X-Pid tells which process has rendered a page. Where there is a FIFO `gate`, a copy waits for the test.
  APP = <<~'RUBY'.freeze
    SALE = Time.at(Integer(ENV.fetch("SALE")))
    GATE = File.join(__dir__, "gate")
    run(lambda do |env|
      has_begun = Time.now >= SALE
      File.read(GATE) if has_begun && File.exist?(GATE)
      text = has_begun ? "after #{File.read(ENV.fetch("TEXT"))}" : "before"
      text = text.ljust(5000, ".") if env["PATH_INFO"] == "/large"
      [200, { "content-type" => "text/plain", "cache-control" => "public, max-age=86400", "surrogate-key" => "sale", "x-pid" => Process.pid.to_s }, [text]]
    end)
  RUBY

  def setup
    skip "there is no valkey-server and no redis-server" unless Valkey.program
    if (why = SetClock.missing)
      skip why
    end
    @valkey = Valkey.new
    @shared = app("text" => "first")
    @sale = Time.at((Time.now.to_i / 3600 + 24) * 3600).utc
    @clock = SetClock.new(@shared)
    set(-300)
  end

  def teardown
    @valkey&.signal(:CONT) if @valkey&.pid
    @fronts&.each { |front| let_go(front) }
    super
    @valkey&.close
  end

  # A copy that still waits there.
  def let_go(front)
    gate = File.join(front.dir, "gate")
    File.open(gate, File::WRONLY | File::NONBLOCK) { |io| io.write("go") } if File.exist?(gate)
  rescue Errno::ENXIO
    nil
  end

  # Seconds after the sale has begun.
  def set(seconds) = @clock.set((@sale - Time.now).ceil + seconds)

  # Starts so many servers; returns when all of them show pages, and share them if they do. A test machine may be slow, so they wait long for Valkey.
  def fronts(count, keys: "shared_cache = true\nshared_cache_time = \"10s\"")
    settings = <<~TOML
      [cluster]
      url = "#{@valkey.url}"
      name = "shop"
      partition_ttl = "1h"
      #{keys}
      [[scheduled]]
      path = "/*"
      at = "#{@sale.strftime("%Y-%m-%d %H:%M UTC")}"
    TOML
    @fronts = Array.new(count) { start(app("config.ru" => APP, "paceline.toml" => settings)) }
    @fronts.each do |front|
      eventually("a server that shows pages") do
        told = control(front, "/cluster")
        told["shows_pages"] && (!keys.include?("shared_cache = true") || told["shared_cache"]["is_connected"])
      end
    end
  end

  def start(dir)
    env = { "SALE" => @sale.to_i.to_s, "TEXT" => File.join(@shared, "text"), "XDG_STATE_HOME" => File.join(dir, "state") }
    serve(dir, "-w", "1", "-t", "2", env: @clock.env.merge(env))
  end

  def get(front, path) = front.get(path, "Host" => "shop.test")

  # What becomes of a page on this server.
  def state(front, path)
    plan = control(front, "/schedule")["sites"].values.flatten.find { |one| one["at"] == @sale.to_i * 1000 }
    plan && plan["pages"].find { |page| URI(page["url"]).path == path }&.fetch("state")
  end

  # Has visitors ask each server for the pages, which so are known there; returns when all are prepared.
  def prepare(*paths, on: @fronts)
    on.map { |front| Thread.new { paths.each { |path| assert_match(/\Abefore/, get(front, path).body) } } }.each(&:join)
    on.each { |front| eventually("#{paths.join(", ")} to be prepared") { paths.all? { |path| state(front, path) == "ready" } } }
  end

  # The text, and the process that has rendered it, as each server says from its cache.
  def shown(path, on: @fronts)
    on.map do |front|
      answer = get(front, path)
      assert_includes answer["cache-status"], "; hit", "no worker was asked"
      [answer.body.delete("."), answer["x-pid"]]
    end
  end

  # How many pages the servers have given to the others.
  def given = @fronts.sum { |front| control(front, "/cluster")["shared_cache"]["writes"] }

  # A server counts a page after the others can have it.
  def assert_given(count)
    eventually("#{count} pages to be counted") { given >= count }
    assert_equal count, given
  end

  def test_one_server_renders_each_page_for_all
    fronts(3)
    paths = Array.new(8) { |number| "/#{number}" }
    prepare(*paths)
    set(-100)
    assert_equal [%w[before] * 8] * 3, @fronts.map { |front| paths.map { |path| get(front, path).body } }
    set(0)
    paths.each do |path|
      pages = shown(path)
      assert_equal [["after first", pages.first.last]] * 3, pages, "one process has rendered #{path}"
    end
    assert_given paths.size
    assert(@fronts.any? { |front| front.output.match?(/rendered by other servers/) })
  end

  # Also by a look shortly before the time. What was begun to be rendered a second before counts as of that look: servers' clocks differ.
  def test_a_late_change_is_rendered_once_for_all_and_shown_early_by_none
    fronts(2)
    prepare("/")
    page = @valkey.cli("KEYS", "*:page:*").strip
    begun = @valkey.cli("GETRANGE", page, "4", "19").strip.hex
    eventually("a page that is too old") { @valkey.cli("TIME").split.map(&:to_i).then { |seconds, micros| seconds * 1_000_000 + micros - begun > 2_000_000 } }
    write(@shared, "text" => "second")
    set(-60)
    @fronts.each do |front|
      control(front, "/schedule")
      front.wait_for(/1 of them new since the last look/)
    end
    assert_given 2
    set(-1)
    assert_equal %w[before before], @fronts.map { |front| get(front, "/").body }
    set(0)
    assert_equal ["after second"], shown("/").map(&:first).uniq
  end

  def test_a_purge_has_the_page_of_all_rendered_once_more
    fronts(3)
    prepare("/")
    ends = @fronts.map { |front| front.wait_for(/: 1 page ready/) && front.output.size }
    write(@shared, "text" => "second")
    assert_match(/2 other servers have confirmed it/, command(@fronts[0].dir, "purge", "--tag", "sale").first)
    @fronts.zip(ends) { |front, from| front.wait_for(/: 1 page ready/, from: from) }
    set(0)
    pages = shown("/")
    assert_equal [["after second", pages.first.last]] * 3, pages, "one process has rendered it"
    assert_given 2
  end

  def test_a_server_that_dies_while_it_renders_is_replaced
    fronts(3)
    first, *others = @fronts
    barrier(first.dir, "gate")
    get(first, "/")
    eventually("the first to render it") { @valkey.cli("KEYS", "*:lease:*").include?(":lease:") }
    others.each do |front|
      get(front, "/")
      eventually("it to wait for the first") { state(front, "/") == "preparing" }
    end
    first.kill
    others.each { |front| eventually("another to prepare it") { state(front, "/") == "ready" } }
    set(0)
    assert_equal ["after first"], shown("/", on: others).map(&:first).uniq
  end

  # Each has its own process's page.
  def prepared_by_each(path = "/")
    prepare(path)
    set(0)
    pages = shown(path)
    assert_equal ["after first"], pages.map(&:first).uniq
    assert_equal @fronts.size, pages.map(&:last).uniq.size
  end

  def test_each_server_prepares_by_itself_what_is_too_large
    fronts(2, keys: "shared_cache = true\nshared_cache_time = \"10s\"\nshared_cache_object = \"4KB\"")
    prepared_by_each("/large")
    assert_equal 0, given
  end

  def test_each_server_prepares_by_itself_without_a_shared_cache
    fronts(2, keys: "shared_cache = false")
    prepared_by_each
  end

  def test_each_server_prepares_by_itself_while_valkey_hangs
    fronts(2, keys: "shared_cache = true\nshared_cache_time = \"200ms\"")
    @valkey.signal(:STOP)
    prepared_by_each
  end
end
