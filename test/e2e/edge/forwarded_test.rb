# Proxies in front: believed when they are trusted, and only then. The redirect to https and Strict-Transport-Security.
require_relative "../support/scenario"
require_relative "../support/certificates"

class ForwardedTest < Minitest::Test
  include Scenario

  ECHO = <<~'RUBY'.freeze
    run lambda { |env|
      names = %w[REMOTE_ADDR rack.url_scheme HTTPS SERVER_NAME SERVER_PORT HTTP_HOST HTTP_X_FORWARDED_FOR HTTP_X_FORWARDED_PROTO HTTP_FORWARDED]
      headers = { "content-type" => "text/plain" }
      headers["strict-transport-security"] = "max-age=5" if env["PATH_INFO"] == "/own"
      [200, headers, [names.map { |name| env[name].to_s }.join("|")]]
    }
  RUBY

  PROXY = { "Host" => "shop.test", "X-Forwarded-For" => "6.6.6.6, 192.0.2.9", "X-Forwarded-Proto" => "https" }.freeze

  def start(toml = "", *arguments, **options)
    serve(app("config.ru" => ECHO, "paceline.toml" => toml), *arguments, **options)
  end

  def test_a_proxy_on_this_machine_is_believed
    server = start

    assert_equal "192.0.2.9|https|on|shop.test|443|shop.test|6.6.6.6, 192.0.2.9|https|", server.get("/", PROXY).body
    server.wait_for(/^192\.0\.2\.9 "/)
    forwarded = { "Host" => "shop.test", "Forwarded" => "for=6.6.6.6, for=192.0.2.9;proto=https;host=www.test" }
    assert_equal "192.0.2.9|https|on|www.test|443|shop.test|||for=192.0.2.9;proto=https;host=www.test", server.get("/", forwarded).body
    both = PROXY.merge("Forwarded" => "for=6.6.6.6;proto=http;host=evil.test")
    assert_equal "192.0.2.9|https|on|shop.test|443|shop.test|6.6.6.6, 192.0.2.9|https|", server.get("/", both).body
  end

  def test_strangers_are_not_believed
    ["trusted_proxies = \"none\"", "trusted_proxies = [\"192.0.2.0/24\", \"unix\"]"].each do |toml|
      server = start(toml)

      assert_equal "127.0.0.1|http||shop.test|80|shop.test|||", server.get("/", PROXY).body
      assert_equal "127.0.0.1|http||shop.test|80|shop.test|||", server.get("/", "Host" => "shop.test", "X_Forwarded_For" => "1.1.1.1").body
    end
  end

  def test_a_proxy_behind_a_unix_socket
    dir = app("config.ru" => ECHO)
    serve(dir, "-b", "unix://app.sock", port: false)

    answer = UNIXSocket.open(File.join(dir, "app.sock")) do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: shop.test\r\nX-Forwarded-For: 192.0.2.9\r\nConnection: close\r\n\r\n")
      socket.read
    end

    assert answer.end_with?("192.0.2.9|http||shop.test|80|shop.test|192.0.2.9||"), answer
  end

  def test_a_host_that_a_proxy_names_is_routed
    dir = app("one/config.ru" => 'run ->(env) { [200, {}, ["one"]] }', "two/config.ru" => 'run ->(env) { [200, {}, ["two"]] }',
              "paceline.toml" => "[[site]]\nroot = \"one\"\nhost = \"one.test\"\n[[site]]\nroot = \"two\"\nhost = \"two.test\"")
    server = serve(dir)

    assert_equal "two", server.get("/", "Host" => "one.test", "X-Forwarded-Host" => "two.test").body
    assert_equal "one", server.get("/", "Host" => "one.test", "X-Forwarded-Host" => "two.test/../x").body
  end

  def test_a_network_is_checked
    server = start("trusted_proxies = \"10.0.0.0/33\"", ready: false, port: false)

    assert_equal 2, server.wait.exitstatus
    assert_match(/paceline.toml:1:19: "trusted_proxies" must be an address, a network like/, server.output)
  end

  def test_http_is_redirected_to_https
    dir = app("config.ru" => ECHO, "paceline.toml" => "redirect_https = true\nhsts = \"1y\"\nhsts_subdomains = true")
    authority = Authority.new
    authority.write(dir, "shop", "shop.test")
    server = serve(dir, "-b", "tcp://127.0.0.1:0", "-b", "ssl://127.0.0.1:0?cert=shop.pem&key=shop.key")
    tls = server.wait_for(/Listening on https:\/\/\S+:(\d+)/)[1]

    get = server.get("/a?b=c", "Host" => "shop.test:#{server.port}")
    assert_equal ["301", "https://shop.test:#{tls}/a?b=c", nil], [get.code, get["location"], get["strict-transport-security"]]
    post = server.request(Net::HTTP::Post.new("/a", "Host" => "shop.test").tap { |request| request.body = "x" })
    assert_equal ["308", "https://shop.test:#{tls}/a"], [post.code, post["location"]]
    # Container engines and load balancers know no other way to ask.
    check = server.get("/up", "Host" => "10.0.0.5")
    assert_equal ["200", "http"], [check.code, check.body.split("|")[1]]
    refused = server.request(Net::HTTP::Post.new("/up", "Host" => "shop.test"))
    assert_equal "308", refused.code
    proxied = server.get("/a", "Host" => "shop.test", "X-Forwarded-Proto" => "http")
    assert_equal "https://shop.test/a", proxied["location"]
    secure = server.get("/a", PROXY)
    assert_equal ["200", "max-age=31536000; includeSubDomains"], [secure.code, secure["strict-transport-security"]]
    assert_equal "max-age=5", server.get("/own", PROXY)["strict-transport-security"]
    assert_match(/\AHTTP\/1.. 400 /, server.exchange("GET / HTTP/1.0\r\n\r\n"))
    authority.connect(Integer(tls), "shop.test") do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n")
      assert_match(/\AHTTP\/1.1 200 .*^strict-transport-security: max-age=31536000/m, socket.read)
    end
  end

  # What a client sends through a proxy that passes it on, as nginx does with fields that it does not set itself.
  def through_a_socket(dir, *lines)
    UNIXSocket.open(File.join(dir, "app.sock")) do |socket|
      socket.write(["GET / HTTP/1.1", "Host: shop.test", *lines, "Connection: close", "", ""].join("\r\n").b)
      socket.read
    end
  end

  def test_a_byte_that_is_no_text_does_not_hide_the_address_a_proxy_appends
    dir = app("config.ru" => ECHO)
    serve(dir, "-b", "unix://app.sock", port: false)
    assert through_a_socket(dir, "X-Forwarded-For: \xFF, 192.0.2.9").end_with?("192.0.2.9|http||shop.test|80|shop.test|192.0.2.9||")
    assert through_a_socket(dir, "Forwarded: for=\"", "Forwarded: for=192.0.2.9").end_with?("192.0.2.9|http||shop.test|80|shop.test|||for=192.0.2.9")
  end

  def test_clients_without_an_address_share_one_rate_limit
    dir = app("config.ru" => ECHO, "paceline.toml" => "[[rate_limit]]\npath = \"/\"\nrate = \"3/h\"\n")
    serve(dir, "-b", "unix://app.sock", port: false)
    codes = ["X-Forwarded-For: \xFF", "X-Forwarded-For: unknown", "Accept: a", "Accept: b"].map { |line| through_a_socket(dir, line)[/\AHTTP\/1.1 (\d+)/, 1] }
    assert_equal %w[200 200 200 429], codes
  end

  def test_no_forwarded_field_poisons_the_page_cache
    page = <<~'RUBY'
      require "rack"
      run ->(env) { [200, { "cache-control" => "public, max-age=60", "content-type" => "text/plain" }, [Rack::Request.new(env).base_url, " ", *env.values_at("HTTP_FORWARDED", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_SSL").inspect]] }
    RUBY
    clean = serve(app("config.ru" => page)).get("/", "Host" => "shop.test", "X-Forwarded-For" => "192.0.2.9").body
    [{ "Forwarded" => "host=\"evil.com/\"" }, { "X-Forwarded-Proto" => "ws" }, { "X-Forwarded-Proto" => "javascript" }, { "Forwarded" => "proto=gopher" },
     { "X-Forwarded-SSL" => "on", "X-Forwarded-Proto" => "http" }, { "X-Forwarded-Host" => "evil.com/" }].each do |fields|
      server = serve(app("config.ru" => page))
      poisoned = server.get("/", { "Host" => "shop.test" }.merge(fields)).body
      assert poisoned.start_with?("http://shop.test "), [fields, poisoned].inspect
      refute_match(/evil|gopher|javascript|ws"/, poisoned)
      assert_equal clean, server.get("/", "Host" => "shop.test", "X-Forwarded-For" => "192.0.2.9").body, fields.inspect
    end
  end

  def test_a_stranger_is_no_surrogate
    dir = app("config.ru" => "run ->(env) { [200, {}, [env['HTTP_SURROGATE_CAPABILITY'].to_s]] }\n", "paceline.toml" => "trusted_proxies = \"none\"\n")
    assert_equal "paceline=\"Surrogate/1.0 ESI/1.0\"", serve(dir).get("/", "Surrogate-Capability" => "evil=\"ESI/1.0\"").body
  end
end
