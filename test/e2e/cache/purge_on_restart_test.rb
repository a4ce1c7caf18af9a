# Pages of code that was replaced: gone when `paceline restart --wait` returns, unless the new code is the same.
require_relative "../support/control"
require_relative "../support/rack_routes"

class PurgeOnRestartTest < Minitest::Test
  include Scenario
  include RackRoutes
  include Control

  # The template is read when the code is loaded, as most servers do in production.
  rack_setup <<~'RUBY'
    PAGE = File.read(File.join(__dir__, "views/page.erb"))
    HEADERS = { "content-type" => "text/plain", "cache-control" => "public, max-age=600" }.freeze

    # Tells the test that it is there, and waits for it.
    MEET = lambda do |name|
      File.write(File.join(__dir__, "#{name}.came"), "came")
      File.read(File.join(__dir__, name))
    end

    # A load that goes on when the test lets it.
    MEET.call("loading") if File.exist?(File.join(__dir__, "loading"))

    # A body that says how it begins, and how it goes on when the test lets it.
    class Halves
      def each
        yield PAGE
        MEET.call("gate")
        yield " end"
      end
    end
  RUBY

  rack do |env|
    MEET.call("gate") if env["HTTP_X_GATE"]
    [200, HEADERS.dup, [PAGE]]
  end

  rack("/halves", bare: true) { |env| [200, HEADERS.dup, env["HTTP_X_GATE"] ? Halves.new : [PAGE]] }

  PRODUCTION = %w[-e production --ready-path off --warm-requests 0].freeze
  CHANGED = /; purged 1 page: the code has changed$/

  def shop(*arguments, toml: "", **options)
    start(*PRODUCTION, *arguments, files: { "views/page.erb" => "one", "paceline.toml" => toml, "tmp/.keep" => "" }, **options)
  end

  # Changes a template. What is written in the moment of a start is neither old nor new.
  def template(text, dir: @dir)
    write(dir, "views/page.erb" => text)
    eventually("the clock to go on") { Time.now - File.ctime(File.join(dir, "views/page.erb")) > 0.05 }
  end

  def restart(*arguments)
    out, status = command(@dir, "restart", "--wait", *arguments)
    assert_equal 0, status, out
    out
  end

  # What the page says, and whether it was stored: "one hit".
  def page(path = "/", *fields)
    answer = ask(path, "Host: shop.test", *fields)
    "#{answer.body} #{answer["cache-status"][/hit|uri-miss|stale/]}"
  end

  def test_a_changed_template_shows_at_once
    shop
    assert_equal ["one uri-miss", "one hit"], [page, page]
    template("two")
    assert_match CHANGED, restart
    assert_equal ["two uri-miss", "two hit"], [page, page]
    @server.wait_for(/: purged 1 page: the code has changed$/)
  end

  def test_the_same_code_keeps_its_pages
    shop
    template("one")
    restart
    page
    refute_match(/purged/, restart)
    assert_equal "one hit", page
    write(@dir, "tmp/cache.erb" => "two", "public/page.html" => "two", "log/production.log" => "two")
    refute_match(/purged/, restart)
    assert_equal "one hit", page
  end

  def test_off_and_always
    shop(toml: "purge_on_restart = \"off\"\n")
    page
    template("two")
    refute_match(/purged/, restart)
    assert_equal "one hit", page

    shop(toml: "purge_on_restart = \"always\"\n")
    page
    assert_match(/; purged 1 page: purge_on_restart = "always"$/, restart)
    assert_equal "one uri-miss", page
  end

  def test_without_a_page_cache_a_restart_is_as_before
    shop(toml: "page_cache = false\n")
    template("two")
    refute_match(/purged/, restart)
    assert_equal "two", ask("/").body
  end

  # The old workers still answer what they have in hand.
  def test_what_the_old_code_answers_late_is_not_stored
    shop
    gate, came = barrier(@dir, "gate"), barrier(@dir, "gate.came")
    late = open_request("/late", "Host: shop.test", "X-Gate: 1")
    came.wait
    template("two")
    restart
    assert_equal "two uri-miss", page("/late"), "nobody waits for the old answer either"
    gate.open
    answer = Wire.response(late)
    assert_equal "one", answer.body
    assert_match(/detail=purged/, answer["cache-status"])
    assert_equal "two hit", page("/late")
  end

  def test_a_body_that_the_old_code_ends_late_is_not_stored
    shop
    gate, came = barrier(@dir, "gate"), barrier(@dir, "gate.came")
    late = open_request("/halves", "Host: shop.test", "X-Gate: 1")
    came.wait
    template("two")
    restart
    gate.open
    assert_equal "one end", Wire.response(late).body
    assert_equal ["two uri-miss", "two hit"], [page("/halves"), page("/halves")]
  end

  def test_a_canarys_pages_are_not_stored
    shop("-w", "2")
    template("two")
    waiting = Thread.new { command(@dir, "restart", "--wait", "--canary", "50%", "--for", "10m") }
    @server.wait_for(/generation 2 has /)
    answers = Array.new(20) { |number| ask("/#{number}", "Host: shop.test") }
    assert_equal({ "one" => 10, "two" => 10 }, answers.map(&:body).tally)
    answers.each { |answer| assert_match(answer.body == "one" ? /; stored/ : /; detail=canary\z/, answer["cache-status"]) }
    old = answers.each_index.select { |number| answers[number].body == "one" }
    assert_equal ["one hit"], old.map { |number| page("/#{number}") }.uniq
    assert_equal 0, command(@dir, "rollback", "--wait").last
    assert_match(/rolled back/, waiting.value.first)
    assert_equal ["one"], Array.new(20) { |number| page("/#{number}")[/\w+/] }.uniq
  end

  def test_a_canary_that_takes_over_purges
    shop("-w", "2")
    page
    template("two")
    waiting = Thread.new { command(@dir, "restart", "--wait", "--canary", "50%", "--for", "200ms", "--requests", "2") }
    @server.wait_for(/generation 2 has /)
    number = 0
    ask("/#{number += 1}", "Host: shop.test") while waiting.alive?
    out, status = waiting.value
    assert_equal 0, status
    assert_match(/; purged \d+ pages?: the code has changed$/, out)
    assert_equal ["two uri-miss", "two hit"], [page, page]
  end

  def test_a_rollback_purges_what_the_new_code_has_made
    shop("--keep-previous", "10m")
    template("two")
    restart
    assert_equal ["two uri-miss", "two hit"], [page, page]
    out, status = command(@dir, "rollback", "--wait")
    assert_equal 0, status
    assert_match CHANGED, out
    assert_equal "one uri-miss", page, "the files say two, but this was loaded before"
    assert_match CHANGED, restart
    assert_equal "two uri-miss", page
  end

  def test_restarts_one_right_after_the_other
    shop
    page
    template("two")
    3.times { command(@dir, "restart") }
    template("three")
    restart
    assert_equal ["three uri-miss", "three hit"], [page, page]
    template("one")
    command(@dir, "restart")
    restart
    assert_equal ["one uri-miss", "one hit"], [page, page]
  end

  def test_each_site_purges_its_own
    sites = %w[one two].map { |name| "[[site]]\nname = \"#{name}\"\nroot = \".\"\nhosts = [\"#{name}.test\", \"*.#{name}.test\"]\n" }
    shop(toml: sites.join)
    @server.wait_for(/two is ready/)
    hosts = %w[one.test www.one.test two.test]
    pages = -> { hosts.map { |host| ask("/", "Host: #{host}").then { |answer| "#{answer.body} #{answer["cache-status"][/hit|uri-miss/]}" } } }
    pages.call
    template("new")
    assert_match(/purged 2 pages: the code has changed$/, restart("--site", "one"))
    assert_equal ["new uri-miss", "new uri-miss", "one hit"], pages.call
    assert_match CHANGED, restart("--site", "two")
    assert_equal ["new hit", "new hit", "new uri-miss"], pages.call
  end

  def test_pages_on_disk_know_their_code
    disk = %w[--cache-disk 16MB]
    shop(*disk)
    template("one")
    restart
    page
    stored = -> { control(@server, "/cache/stats")["disk"]["responses"] == 1 }
    eventually("it to be on disk", &stored)
    @server.stop
    @server = serve(@dir, *PRODUCTION, *disk)
    assert_equal "one hit", page
    @server.stop
    template("two")
    @server = serve(@dir, *PRODUCTION, *disk)
    @server.wait_for(/: purged 1 page: the code has changed$/)
    assert_equal ["two uri-miss", "two hit"], [page, page]
  end

  def test_a_server_that_takes_over_keeps_only_pages_of_its_own_code
    shop
    template("one")
    restart
    page
    upgrade = -> { command(@dir, "upgrade", "--wait") }
    assert_equal 0, upgrade.call.last
    assert_equal "one hit", page
    template("two")
    assert_equal 0, upgrade.call.last
    @server.wait_for(/purged 1 (page: the code has changed|of the pages taken over: other code made them)$/)
    assert_equal ["two uri-miss", "two hit"], [page, page]
  end

  # The files are the ones that the next load reads: without a look at the link the pages of this one would stay.
  def test_a_link_that_is_switched_while_the_code_is_loaded
    shop
    write(@dir, "v1/page.erb" => "one", "v2/page.erb" => "two")
    FileUtils.rm_rf(File.join(@dir, "views"))
    link("v1")
    restart
    page
    gate, came = barrier(@dir, "loading"), barrier(@dir, "loading.came")
    loading = Thread.new { restart }
    came.wait
    link("v2")
    FileUtils.rm(File.join(@dir, "loading.came"))
    gate.open
    FileUtils.rm(File.join(@dir, "loading"))
    assert_match(%r{; purged 1 page: the code can't be compared: \S+/views may have changed since it was loaded$}, loading.value)
    assert_equal ["one uri-miss", "one hit"], [page, page]
    assert_match(/; purged 1 page: it is not known which code made them$/, restart)
    assert_equal ["two uri-miss", "two hit"], [page, page]
  end

  # Has `views` lead there, as a deployment does.
  def link(target)
    File.symlink(target, File.join(@dir, "views.new"))
    File.rename(File.join(@dir, "views.new"), File.join(@dir, "views"))
    eventually("the clock to go on") { Time.now - File.lstat(File.join(@dir, "views")).ctime > 0.05 }
  end

  def test_templates_behind_a_link_and_links_in_a_circle
    shared = app("page.erb" => "linked")
    shop
    FileUtils.rm_rf(File.join(@dir, "views"))
    File.symlink(shared, File.join(@dir, "views"))
    File.symlink(".", File.join(shared, "again"))
    eventually("the clock to go on") { Time.now - File.lstat(File.join(@dir, "views")).ctime > 0.05 }
    restart
    assert_equal ["linked uri-miss", "linked hit"], [page, page]
    refute_match(/purged/, restart)
    assert_equal "linked hit", page
    template("other", dir: @dir)
    assert_match CHANGED, restart
    assert_equal "other uri-miss", page
  end
end
