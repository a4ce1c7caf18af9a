# Stale pages that stand in: while a new one is made, and when the application can't answer; within what was allowed, and not
# beyond it. Pages are old by their Age.
require_relative "../support/cached_site"

class CacheStaleTest < Minitest::Test
  include CachedSite

  def old(more, age: 100) = { "cache-control" => "max-age=60, #{more}", "age" => age.to_s }

  def test_the_old_is_given_while_the_new_is_made
    open = Queue.new
    site do |_one|
      number = calls
      open.pop if number > 1
      [200, number > 1 ? { "cache-control" => "max-age=60" } : old("stale-while-revalidate=1000"), "page #{number}"]
    end
    ask("/")
    10.times do
      stale = ask("/")
      assert_equal ["page 1", "hit; detail=stale-while-revalidate"], [stale.body, words(stale)]
      assert_match(/ttl=-4\d/, status(stale))
      assert_operator Integer(stale["age"]), :>=, 100
    end
    reached(2)
    open << 1
    eventually("the new page") { ask("/").body == "page 2" }
    assert_equal ["hit", 2], [words(ask("/")), calls]
  end

  def test_not_beyond_the_window
    site { |_one| [200, old("stale-while-revalidate=30, stale-if-error=30").merge("etag" => '"a"'), "page #{calls}"] }
    assert_equal ["page 1", "page 2"], [ask("/").body, ask("/").body]
    assert_equal "fwd=stale; stored", words(ask("/"))
  end

  def test_a_client_that_takes_nothing_stale
    site { |_one| [200, old("stale-while-revalidate=1000, stale-if-error=1000"), "page #{calls}"] }
    ask("/")
    { "no-cache" => "fwd=request", "max-age=0" => "fwd=request", "max-age=500" => "fwd=stale", "min-fresh=1" => "fwd=stale" }.each do |wish, expected|
      assert_equal "#{expected}; stored", words(ask("/", { "Cache-Control" => wish })), wish
    end
  end

  # A page that is old, and then an application that does what it is told.
  def failing(fields = old("stale-if-error=1000"), toml = "")
    @failure = nil
    site(toml) { |one, link| @failure && calls > 1 ? @failure.call(one, link) : [200, fields, "page"] }
    @client = nil
    ask("/")
  end

  def test_it_stands_in_for_errors
    [500, 502, 503, 504].each do |code|
      failing
      @failure = ->(*) { [code, {}, "failed"] }
      page = ask("/")
      assert_equal [200, "page", "hit; fwd-status=#{code}; detail=stale-if-error"], [page.status, page.body, words(page)]
      assert_operator Integer(page["age"]), :>=, 100
    end
    [404, 403, 501, 429].each do |code|
      failing
      @failure = ->(*) { [code, {}, "failed"] }
      assert_equal [code, "failed"], ask("/").then { |one| [one.status, one.body] }
    end
  end

  def test_it_stands_in_for_an_application_that_is_not_there
    failing
    @failure = ->(_one, link) { link.reset && nil }
    assert_equal ["page", "hit; fwd-status=502; detail=stale-if-error"], ask("/").then { |one| [one.body, words(one)] }
    @origins.each(&:close)
    assert_equal ["page", "hit; fwd-status=502; detail=stale-if-error"], ask("/").then { |one| [one.body, words(one)] }
    assert_equal 502, ask("/other").status
  end

  def test_it_does_not_stand_in_where_that_is_forbidden
    ["stale-if-error=1000, must-revalidate", "stale-if-error=1000, proxy-revalidate", "stale-if-error=1000, no-cache", "stale-if-error=1000, s-maxage=60", "x"].each do |more|
      failing(old(more).merge("etag" => '"a"'))
      @failure = ->(*) { [500, {}, "failed"] }
      assert_equal 500, ask("/").status, more
    end
    failing
    @failure = ->(*) { [500, {}, "failed"] }
    assert_equal [500, 200], [ask("/", { "Cache-Control" => "no-cache" }).status, ask("/").status]
    assert_equal 500, ask("/", method: "POST", body: "").status
    assert_equal 200, ask("/").status
  end

  def test_the_sites_own_window
    failing({ "cache-control" => "max-age=60", "age" => "100", "etag" => '"a"' }, 'cache_stale_if_error = "1h"')
    @failure = ->(*) { [500, {}, "failed"] }
    assert_equal "hit; fwd-status=500; detail=stale-if-error", words(ask("/"))
    failing({ "cache-control" => "max-age=60", "age" => "4000", "etag" => '"a"' }, 'cache_stale_if_error = "1h"')
    @failure = ->(*) { [500, {}, "failed"] }
    assert_equal 500, ask("/").status
  end

  def test_those_who_wait_are_told_too
    open = Queue.new
    site(threads: 1) { |_one| calls > 1 ? (open.pop; [500, {}, "failed"]) : [200, old("stale-if-error=1000"), "page"] }
    ask("/")
    all = Array.new(3) { client.send("/") }
    reached(2)
    strict = client.send("/", { "Cache-Control" => "no-cache" })
    3.times { assert_equal 504, ask("/marker", { "Cache-Control" => "only-if-cached" }).status }
    2.times { open << 1 }
    pages = all.map(&:receive)
    assert_equal ["hit; fwd-status=500; collapsed; detail=stale-if-error", "hit; fwd-status=500; detail=stale-if-error"], pages.map { |one| words(one) }.uniq.sort
    assert(pages.all? { |one| one.body == "page" && Integer(one["age"]) >= 100 })
    assert_equal 500, strict.receive.status, "who asks for a new one does not get an old one"
  end

  APP = <<~'RUBY'
    run ->(env) {
      path = env["PATH_INFO"]
      if File.exist?("told")
        case File.read("told")
        when "die" then Process.kill(:KILL, Process.pid)
        when "raise" then raise "told to"
        end
      end
      File.write("arrived", "x") && File.read("open") if path == "/wait"
      [200, { "cache-control" => "max-age=60, stale-if-error=1000", "age" => "100" }, ["page"]]
    }
  RUBY

  # A page of an application in Ruby, which is old.
  def ruby(toml = "")
    @dir = app("config.ru" => APP, "paceline.toml" => "threads = 1\nworkers = 1\n#{toml}")
    @server = serve(@dir)
    assert_equal "fwd=uri-miss; stored", words(ask("/"))
  end

  def test_it_stands_in_for_a_worker_that_dies_and_for_an_exception
    ruby
    write(@dir, "told" => "die")
    assert_equal ["page", "hit; fwd-status=502; detail=stale-if-error"], ask("/").then { |one| [one.body, words(one)] }
    write(@dir, "told" => "raise")
    eventually("the worker to be there again") { words(ask("/")) == "hit; fwd-status=500; detail=stale-if-error" }
    File.delete(File.join(@dir, "told"))
    assert_equal "fwd=stale; stored", words(ask("/"))
  end

  def test_it_stands_in_for_an_application_that_does_not_start
    ruby
    write(@dir, "config.ru" => "raise 'never'", "tmp/restart.txt" => "")
    @server.workers.each { |pid| Process.kill(:KILL, pid) }
    @server.preloaders.each { |pid| Process.kill(:KILL, pid) }
    pages = Array.new(3) { ask("/") }
    pages << ask("/") until words(pages.last) == "hit; fwd-status=503; detail=stale-if-error" || pages.size > 200
    assert_equal "hit; fwd-status=503; detail=stale-if-error", words(pages.last)
    assert_equal ["page"], pages.map(&:body).uniq, "nobody has seen an error"
  end

  def test_it_stands_in_when_the_queue_is_full
    ruby("queue_max = 1")
    arrived, open = barrier(@dir, "arrived"), barrier(@dir, "open")
    one = client.send("/wait")
    arrived.wait
    two = client.send("/wait?2")
    eventually("a request in the queue") { @server.state[:waiting] == 1 }
    assert_equal ["page", "hit; fwd-status=503; detail=stale-if-error"], ask("/").then { |page| [page.body, words(page)] }
    assert_equal 503, ask("/else").status
    open.open
    arrived.wait
    open.open
    [one, two].each { |client| assert_equal 200, client.receive.status }
  end
end
