# Real applications know the visitor without a line of code in them: the brewery by REMOTE_USER, Redmine by a plugin of one file (test/sso/redmine).
require "timeout"
require_relative "../support/realm"

class SignOnApplicationsTest < Minitest::Test
  include Front
  include Realm

  # Rails takes its time to start, in the test's own time.
  ROOT = File.expand_path("../../..", __dir__)

  # The application in `root`, behind tickets.
  def application(root, environment: "development")
    front(<<~TOML, env: @kdc.env, files: { "config.ru" => "" })
      [[site]]
      root = "#{root}"
      environment = "#{environment}"
      [[site.sso]]
      kerberos = { keytab = "#{@keytab}" }
      otherwise = "refuse"
    TOML
  end

  def prepared(script, name, *arguments)
    dir = File.join(ROOT, "tmp", name)
    output, status = Open3.capture2e(File.join(ROOT, "test", script, "prepare"), dir, *arguments)
    assert status.success?, output
    dir
  end

  def test_the_brewery_writes_down_who_changed_a_price
    application(prepared("brewery", "sso-brewery"))
    price = format("%.2f", 2 + rand(900) / 100.0)
    alice = browser(ticket: true)
    page = alice.open("/beers/13")
    assert_equal "200", page.code, @server.output
    token = page.body[/name="csrf-token" content="([^"]+)"/, 1].gsub("&amp;", "&")
    answer = alice.post("/beers/13/price", { "_method" => "patch", "authenticity_token" => token, "beer[price]" => price }, "Origin" => "https://#{HOST}:#{@server.port}")
    assert_equal "302", answer.code, answer.body
    row = alice.open("/audit").body[/<tbody>\s*<tr>.*?<\/tr>/m]
    assert_includes row, "€ #{price}"
    assert_match(/<td>alice<\/td>/, row)
    @kdc.sign_in("bob")
    assert_includes browser(ticket: true).open("/audit").body, "<td>alice</td>", "he sees who it was"
    assert_equal "401", browser.open("/audit").code
  end

  def test_redmine_knows_its_user
    dir = prepared("redmine", "sso-redmine")
    FileUtils.mkdir_p(File.join(dir, "plugins/server_login"))
    FileUtils.cp(File.join(ROOT, "test/sso/redmine/init.rb"), File.join(dir, "plugins/server_login/init.rb"))
    account = JSON.parse(File.read(File.join(dir, "account.json")))
    application(dir, environment: "production")
    @kdc.sign_in("bob")
    bob = browser(ticket: true)
    page = bob.open("/my/page")
    assert_equal ["302", "/login"], [page.code, URI(page["location"].to_s).path], "Redmine has no bob, and asks him to log in"
    user = { "user" => { "login" => "alice", "firstname" => "Alice", "lastname" => "Example", "mail" => "alice@example.test", "password" => "not-needed-7" } }
    answer = bob.post("/users.json", JSON.generate(user), "Content-Type" => "application/json", "X-Redmine-API-Key" => account["api_key"])
    assert_includes %w[201 422], answer.code, "created, or there since the last run"
    @kdc.sign_in("alice")
    alice = browser(ticket: true)
    page = alice.open("/my/page")
    assert_equal "200", page.code, "#{page["location"]} #{@server.output}"
    assert_match(/Logged in as.*alice/m, page.body)
    assert_equal "200", alice.open("/my/account").code, "the next page, too"
    assert_equal "302", bob.open("/my/page").code, "he is still nobody there"
  end
end
