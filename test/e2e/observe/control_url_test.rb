# The control routes over TCP: who may read, who may change, and who is turned away.
require "digest"
require "open3"
require_relative "../support/scenario"
require_relative "../support/control"

class ControlUrlTest < Minitest::Test
  include Scenario
  include Control

  APP = { "config.ru" => 'run ->(env) { [200, { "cache-control" => "public, max-age=100" }, ["ok"]] }' }.freeze
  TOKEN = "correct-horse-battery".freeze
  ANYWHERE = "tcp://127.0.0.1:0".freeze

  def test_on_loopback_without_a_token_it_reads_and_nothing_else
    server = serve(app(APP), "--control-url", ANYWHERE)
    answer = ask(server, "/incidents")
    assert_equal ["200", 0], [answer.code, JSON.parse(answer.body)["count"]]
    assert_equal ["no-store", "nosniff", "DENY"], %w[cache-control x-content-type-options x-frame-options].map { |name| answer[name] }
    assert_includes answer["content-security-policy"], "default-src 'none'"
    server.get("/")
    purge = Net::HTTP::Post.new("/cache/purge", "Content-Type" => "application/json")
    purge.body = '{"all":true}'
    assert_equal ["403", "this request changes something and needs a token: set control_token, or use the control socket"], refusal(ask(server, purge))
    assert_equal "403", ask(server, Net::HTTPGenericRequest.new("PURGE", false, true, "/")).code
    # Nothing is gone, and the socket needs no token.
    assert_equal 1, control(server, "/cache/stats")["responses"]
    assert_equal({ "purged" => 1 }, control(server, "/cache/purge", { "all" => true }))
  end

  def test_a_name_that_leads_here_is_no_way_in
    server = serve(app(APP), "--control-url", ANYWHERE)
    assert_equal "403", ask(server, "/incidents", "Host" => "evil.example:#{port(server)}").code
    assert_equal "403", ask(server, "/incidents", "Sec-Fetch-Site" => "cross-site", "Sec-Fetch-Mode" => "no-cors").code
    assert_equal "200", ask(server, "/incidents", "Host" => "localhost").code
  end

  def test_with_a_token_only_who_has_it
    server = serve(app(APP), "--control-url", ANYWHERE, env: { "PACELINE_CONTROL_TOKEN" => TOKEN })
    assert_equal "401", ask(server, "/incidents").code
    assert_equal "200", ask(server, "/incidents", "Authorization" => "Bearer #{TOKEN}").code
    purge = Net::HTTP::Post.new("/cache/purge", "Authorization" => "Bearer #{TOKEN}")
    purge.body = '{"all":true}'
    assert_equal "200", ask(server, purge).code
    refute_includes server.output, TOKEN
    # A browser comes with the token once, and has a cookie from there on: for reading.
    entered = ask(server, "/incidents?token=#{TOKEN}")
    assert_equal ["303", "/incidents"], [entered.code, entered["location"]]
    assert_match(/; Path=\/; HttpOnly; SameSite=Strict\z/, entered["set-cookie"])
    refute_includes entered["set-cookie"], TOKEN
    cookie = { "Cookie" => entered["set-cookie"][/\A[^;]+/] }
    assert_equal "200", ask(server, "/incidents", cookie).code
    assert_equal "403", ask(server, Net::HTTP::Post.new("/cache/purge", cookie)).code
  end

  def test_who_guesses_is_made_to_wait
    server = serve(app(APP), "--control-url", ANYWHERE, env: { "PACELINE_CONTROL_TOKEN" => TOKEN })
    codes = Array.new(11) { |n| ask(server, "/incidents", "Authorization" => "Bearer wrong-token-no-#{n}").code }
    assert_equal [["401"] * 10, "429"], [codes[0, 10], codes.last]
    right = ask(server, "/incidents", "Authorization" => "Bearer #{TOKEN}")
    assert_equal "429", right.code
    assert_includes 1..61, right["retry-after"].to_i
  end

  def test_beyond_loopback_it_wants_a_token
    out, status = command(app(APP), "--control-url", "tcp://0.0.0.0:0", "-b", "tcp://127.0.0.1:0")
    assert_equal "paceline: control_url tcp://0.0.0.0:0 is reachable from other machines: set control_token too (`openssl rand -hex 16` makes one)\n", out
    assert_equal 2, status
  end

  def test_the_command_serves_it_to_one_browser
    server = serve(app(APP))
    clean = { "PACELINE_CONTROL" => nil }.merge(Scenario::AS_ROOT)
    Open3.popen2e(clean, Scenario::BIN, "dashboard", chdir: server.dir) do |_, out, process|
      link = Timeout.timeout(PATIENCE) { out.each_line.find { |line| line.include?("http://") } }.strip
      at = URI(link)
      assert_equal "127.0.0.1", at.host
      get = ->(path, headers = {}) { Net::HTTP.start(at.host, at.port) { |http| http.request(Net::HTTP::Get.new(path, headers)) } }
      assert_equal "401", get["/incidents"].code
      entered = get["#{at.path}?#{at.query}"]
      assert_equal "303", entered.code
      assert_equal "401", get["#{at.path}?#{at.query}"].code, "the link opens once"
      cookie = { "Cookie" => entered["set-cookie"][/\A[^;]+/] }
      assert_equal 0, JSON.parse(get["/incidents", cookie].body)["count"]
    ensure
      Process.kill(:INT, process.pid)
    end
  end

  def test_no_application_is_given_the_token
    app = "run ->(env) { [200, {}, [ENV.key?('PACELINE_CONTROL_TOKEN').to_s, ENV.values.grep(/sesame-open/).size.to_s, File.binread('/proc/self/environ').include?('sesame-open').to_s]] }"
    server = serve(app("config.ru" => app, "config/puma.rb" => "ENV.key?('PACELINE_CONTROL_TOKEN') and raise 'it is there'\n"), env: { "PACELINE_CONTROL_TOKEN" => "sesame-open-0123456789" })
    assert_equal "false0false", server.get("/").body
  end

  private

  def port(server) = server.wait_for(/control listener is http:\/\/127\.0\.0\.1:(\d+)\//)[1].to_i

  # `what`: a path, or a request.
  def ask(server, what, headers = {})
    request = what.is_a?(String) ? Net::HTTP::Get.new(what, headers) : what
    Net::HTTP.start("127.0.0.1", port(server), read_timeout: PATIENCE) { |http| http.request(request) }
  end

  def refusal(answer) = [answer.code, JSON.parse(answer.body)["error"]]
end
