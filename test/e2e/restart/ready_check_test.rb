# A new generation is asked for a page before it takes over; `paceline restart --wait` says how it went.
require_relative "../support/scenario"
require_relative "../support/control"

class ReadyCheckTest < Minitest::Test
  include Scenario
  include Control

  # Answers as the files `status` and `version` said when it was loaded, and writes down what it was asked.
  APP = <<~'RUBY'
    version = File.read("version")
    answers = File.exist?("answers") ? eval(File.read("answers")) : {}
    run ->(env) do
      File.write("asked", "#{version} #{env["rack.url_scheme"]} #{env["HTTP_HOST"]} #{env["REQUEST_URI"]} #{env["HTTP_USER_AGENT"]} #{env["HTTP_COOKIE"]}\n", mode: "a")
      answer = answers[env["PATH_INFO"]]
      raise "the database is away" if answer == :raise
      exit!(9) if answer == :exit
      File.read("barrier") if answer == :wait
      [answer || 404, { "content-type" => "text/html" }, ["<title>#{version}: #{answer}</title><p>x"]]
    end
  RUBY
  GOOD = '{ "/" => 200 }'

  def production(dir, *arguments) = serve(dir, "-e", "production", "-w", "2", "-t", "2", *arguments)

  def shop(answers = GOOD) = app("config.ru" => APP, "version" => "old", "answers" => answers)

  def asked(dir, version) = File.read(File.join(dir, "asked")).lines.select { |line| line.start_with?(version) }.map(&:strip)

  def test_without_an_up_the_front_page_is_asked_for
    dir = shop
    server = production(dir)
    write(dir, "version" => "new")
    out, status = command(dir, "restart", "--wait")
    assert_equal 0, status
    assert_match(/\A\S+ is ready: production, 2 x 2 threads, ruby .*; GET \/ answered 200\n\z/, out)
    agent = asked(dir, "new").first[/Paceline\/\S+ \(ready check\)/]
    assert_equal ["new https localhost /up #{agent}", "new https localhost / #{agent}"], asked(dir, "new")
    assert_equal "<title>new: 200</title><p>x", server.get("/").body
    refute_match(/GET \/up/, server.output.lines.grep(/localhost|127/).join)
  end

  def test_an_up_that_answers_is_enough
    dir = shop('{ "/up" => 302, "/" => 500 }')
    production(dir)
    write(dir, "version" => "new")
    out, status = command(dir, "restart", "--wait")
    assert_equal [0, "302"], [status, out[/GET \/up answered (\d+)/, 1]]
  end

  { "a 5xx" => ['{ "/up" => 503, "/" => 200 }', /GET \/up was answered 503 Service Unavailable: new: 503/],
    "an exception" => ['{ "/" => :raise }', /RuntimeError: the database is away/],
    "a worker that ends" => ['{ "/" => :exit }', /GET \/ was not answered: the worker died of it|ended with status 9/] }.each do |what, (answers, told)|
    define_method("test_#{what.tr(" ", "_")}_is_a_failure_and_the_old_one_goes_on") do
      dir = shop
      server = production(dir)
      before = server.descendants
      write(dir, "version" => "new", "answers" => answers)
      out, status = command(dir, "restart", "--wait")
      assert_equal 1, status
      assert_match(/\A\S+ did not start\n/, out)
      assert_match(/✗ check    answer a request/, out)
      assert_match(told, out)
      assert_match(/the generation that served before, if there was one, continues\n\z/, out)
      assert_equal "<title>old: 200</title><p>x", server.get("/").body
      eventually("the new generation to go") { server.descendants.sort == before.sort }

      write(dir, "answers" => GOOD)
      assert_equal 0, command(dir, "restart", "--wait").last
      assert_equal "<title>new: 200</title><p>x", server.get("/").body
    end
  end

  def test_no_answer_within_start_timeout_is_a_failure
    dir = shop
    barrier(dir)
    production(dir, "--start-timeout", "5s")
    write(dir, "version" => "new", "answers" => '{ "/" => :wait }')
    out, status = command(dir, "restart", "--wait")
    assert_equal 1, status
    assert_match(/GET \/ was not answered within 5/, out)
  end

  def test_another_path_and_none
    dir = shop('{ "/" => 500, "/health" => 200 }')
    production(dir, "--ready-path", "/health")
    write(dir, "version" => "new")
    assert_match(/GET \/health answered 200/, command(dir, "restart", "--wait").first)
    other = shop('{ "/" => 500 }')
    production(other, "--ready-path", "off")
    write(other, "version" => "new")
    assert_equal 0, command(other, "restart", "--wait").last
    refute_path_exists File.join(other, "asked")
  end

  def test_in_development_nothing_is_asked
    dir = shop('{ "/" => 500 }')
    serve(dir)
    assert_equal 0, command(dir, "restart", "--wait").last
    refute_path_exists File.join(dir, "asked")
  end

  def test_a_first_generation_serves_whatever_it_answers_and_that_is_told
    dir = shop('{ "/" => 500, "/fine" => 200 }')
    server = production(dir)
    assert_equal "200", server.get("/fine").code
    server.wait_for(/ serves, but its ready_path fails: GET \/ was answered 500 Internal Server Error: old: 500$/)
  end

  def test_a_site_is_named_and_what_is_not_known_is_refused
    dir = shop
    server = production(dir)
    out, status = command(dir, "restart", "--site", "other")
    assert_equal [1, "paceline: no application has the site name \"other\"\n"], [status, out]
    assert_equal [0, "#{File.basename(dir)}: restart started\n"], command(dir, "restart", "--site", File.basename(dir)).reverse
    server.wait_for(/ is ready: .* is ready: /m)
  end

  PAGES = <<~'RUBY'
    version = File.read("version")
    run ->(env) do
      File.write("asked", "#{version} #{env["REQUEST_URI"]} #{env["HTTP_COOKIE"]} #{env["HTTP_USER_AGENT"][/warm-up|ready check/]}\n", mode: "a")
      control = { "/often" => "public, max-age=600", "/seldom" => "max-age=600", "/mine" => "private" }[env["PATH_INFO"]]
      [200, { "cache-control" => control || "no-store" }, ["#{version} #{env["PATH_INFO"]}"]]
    end
  RUBY

  def test_the_pages_kept_for_everybody_are_asked_for_first
    dir = app("config.ru" => PAGES, "version" => "old")
    settings = "[[cache]]\npath = \"/mine\"\nttl = \"10m\"\ncookies = [\"me\"]\n"
    write(dir, "paceline.toml" => settings)
    # Which code made a page is known only if nothing was written in the moment of the start.
    eventually("the clock to go on") { Time.now - File.ctime(File.join(dir, "paceline.toml")) > 0.05 }
    server = production(dir)
    4.times { server.get("/often") }
    2.times { server.get("/seldom") }
    3.times { server.get("/mine", "Cookie" => "me=1") }
    5.times { server.get("/never") }
    write(dir, "version" => "new")
    out, status = command(dir, "restart", "--wait")
    assert_equal 0, status
    assert_match(/GET \/up answered 200; warmed with 2 pages$/, out)
    assert_equal ["new /up  ready check", "new /often  warm-up", "new /seldom  warm-up"], asked(dir, "new")
    assert_equal ["old /often", "old /often"], Array.new(2) { server.get("/often").body }, "the cache is as it was"

    other = app("config.ru" => PAGES, "version" => "old")
    server = production(other, "--warm-requests", "0")
    2.times { server.get("/often") }
    write(other, "version" => "new")
    refute_match(/warmed/, command(other, "restart", "--wait").first)
  end
end
