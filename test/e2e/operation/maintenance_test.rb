# `paceline maintenance on`: a site that is closed for a while, whatever happens to its server meanwhile.
require "json"
require_relative "../support/scenario"
require_relative "../support/asking"

class MaintenanceTest < Minitest::Test
  include Scenario
  include Asking

  APP = <<~'RUBY'.freeze
    run ->(env) { [200, { "content-type" => "text/plain", "cache-control" => "max-age=600" }, ["app"]] }
  RUBY
  BROWSER = "Accept: text/html".freeze

  def start(toml = "")
    @state ||= app
    @dir ||= app("config.ru" => APP, "paceline.toml" => toml, "public/file.txt" => "a file", "page.html" => "<p>our own page")
    @server = serve(@dir, env: { "XDG_STATE_HOME" => @state })
  end

  def maintenance(*arguments) = command(@server, "maintenance", *arguments)

  def site = File.basename(@dir)

  def statuses(*fields) = %w[/ /file.txt /kept].map { |path| ask(path, *fields).status }

  def test_everybody_gets_a_page_that_says_so
    start
    assert_equal [200] * 3, statuses
    assert_equal ["#{site} is closed for maintenance\n", 0], maintenance("on")
    assert_equal [503] * 3, statuses, "the application, a file, a kept page"
    answer = ask("/", BROWSER)
    assert_equal ["300", "no-store", "text/html; charset=utf-8"], [answer["retry-after"], answer["cache-control"], answer["content-type"]]
    assert_includes answer.body, "We will be back soon"
    assert_match(/\A503 /, ask("/").body)
    assert_match(/^  CLOSED for maintenance since \d+ s$/, command(@server, "status")[0])
    assert_equal ["#{site} is open\n", 0], maintenance("off")
    assert_equal [200] * 3, statuses
    @server.wait_for(/is closed for maintenance$/)
    @server.wait_for(/is open again$/)
  end

  def test_checks_and_some_addresses_are_let_in
    start
    maintenance("on", "--allow", "192.0.2.0/24", "--retry-after", "60", "--page", "page.html")
    assert_equal [200] * 3, statuses("X-Forwarded-For: 192.0.2.7")
    assert_equal [503] * 3, statuses("X-Forwarded-For: 198.51.100.1")
    assert_equal ["<p>our own page", "60"], ask("/", BROWSER).then { |answer| [answer.body, answer["retry-after"]] }
    assert_equal [200, 200], [ask("/up").status, control(@server, "/healthz")[0]]
    assert_equal "#{site} is closed for maintenance, but for 192.0.2.0/24\n", maintenance("on", "--allow", "192.0.2.0/24")[0]
  end

  def test_a_restart_opens_nothing
    start
    maintenance("on", "--page", "page.html")
    File.delete(File.join(@dir, "page.html"))
    @server.stop
    start
    assert_equal "<p>our own page", ask("/", BROWSER).body
    @server.signal(:KILL)
    @server.wait
    start
    assert_equal 503, ask("/").status
    maintenance("off")
    @server.stop
    start
    assert_equal 200, ask("/").status
  end

  def test_one_site_of_several
    @dir = app("one/config.ru" => APP, "two/config.ru" => APP,
      "paceline.toml" => "[[site]]\nroot = \"one\"\nhost = \"one.test\"\n[[site]]\nroot = \"two\"\nhost = \"two.test\"\n")
    start
    assert_equal "one.test is closed for maintenance\n", maintenance("on", "--site", "one.test")[0]
    assert_equal [503, 200], [ask("/", "Host: one.test").status, ask("/", "Host: two.test").status]
    out, status = maintenance("on", "--site", "three.test")
    assert_equal 1, status
    assert_includes out, 'there is no site "three.test"; the sites are: one.test, two.test'
  end
end
