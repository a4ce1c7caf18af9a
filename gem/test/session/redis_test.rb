# frozen_string_literal: true

require "session/support/backends"
require "socket"

# Redis that is not there, does not answer, starts again or refuses; and what is kept in it.
class SessionRedisTest < Minitest::Test
  include SessionBackends::Looks

  def setup
    skip "there is no redis-server, or no gem redis" if SessionBackends::SERVERS.empty? || !SessionBackends::CLIENT
    @server = SessionBackends.server(SessionBackends::SERVERS.first)
    raw(@server.url) { |redis| redis.flushall }
  end

  def unavailable(store, **options)
    error = assert_raises(Paceline::Session::Unavailable) { sessions(store, **options).find("id") }
    assert_raises(Paceline::Session::Unavailable) { sessions(store, **options).create("id", { "a" => 1 }) }
    assert error.cause
    error.message
  end

  def test_nobody_is_there
    port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    message = unavailable("redis://user:secret@127.0.0.1:#{port}/3")
    assert_includes message, "sessions in redis://127.0.0.1:#{port}/3: "
    refute_includes message, "secret"
    unavailable("unix:///tmp/no/such/socket")
  end

  def test_nobody_answers
    TCPServer.open("127.0.0.1", 0) do |server|
      message = unavailable("redis://127.0.0.1:#{server.addr[1]}", redis: { timeout: 0.05, reconnect_attempts: 0 })
      assert_match(/tim|timed out|127\.0\.0\.1/i, message)
    end
  end

  def test_a_server_that_started_again_knows_no_scripts_and_no_connections
    server = SessionBackends::Server.new(SessionBackends::SERVERS.first)
    sessions = sessions(server.url)
    sessions.create("id", { "a" => 1 })
    raw(server.url) { |redis| redis.script(:flush) }
    change(sessions, "id") { |now| now["a"] = 2 }
    assert_equal({ "a" => 2 }, values(sessions, "id"))
    server.stop
    assert_raises(Paceline::Session::Unavailable) { sessions.find("id") }
    server.start
    assert_nil sessions.find("id")
    sessions.create("id", { "a" => 3 })
    assert_equal({ "a" => 3 }, values(sessions, "id"))
  end

  def test_what_it_refuses
    sessions = sessions(@server.url)
    sessions.create("id", { "a" => 1 })
    raw(@server.url) { |redis| redis.set(redis.keys("*").first, "a string") }
    assert_match(/WRONGTYPE/, assert_raises(Paceline::Session::Unavailable) { sessions.find("id") }.message)
    raw(@server.url) { |redis| redis.keys("*").each { |key| redis.del(key) && redis.hset(key, "x", "y") } }
    assert_match(/was not written by this gem/, assert_raises(Paceline::Session::Unavailable) { sessions.find("id") }.message)
    full = SessionBackends::Server.new(SessionBackends::SERVERS.first, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
    assert_match(/OOM/, assert_raises(Paceline::Session::Unavailable) { sessions(full.url).create("id", { "a" => 1 }) }.message)
  end

  # Expires by itself a minute after the session does.
  def test_redis_removes_what_has_expired
    sessions = sessions(@server.url, idle: 100)
    sessions.create("id", { "a" => 1 })
    left = raw(@server.url) { |redis| redis.pttl(redis.keys("*").first) }
    assert_operator left, :<=, 160_000
    assert_operator left, :>, 150_000
    @now += 50
    change(sessions, "id") { |now| now["a"] = 2 }
    assert_operator raw(@server.url) { |redis| redis.pttl(redis.keys("*").first) }, :>, 150_000
  end

  def test_a_prefix_for_each_application
    sessions(@server.url, prefix: "shop:").create("id", { "a" => 1 })
    assert_nil sessions(@server.url).find("id")
    assert_nil sessions(@server.url, prefix: "blog:").find("id")
    assert sessions(@server.url, prefix: "shop:").find("id")
    assert_equal ["shop:#{Digest::SHA256.hexdigest("id")}"], raw(@server.url) { |redis| redis.keys("*") }
  end

  def test_connections_of_before_a_fork_are_the_parents
    sessions = sessions(@server.url, redis: { reconnect_attempts: 0 })
    sessions.create("id", { "n" => 0 })
    pid = fork { exit!(sessions.find("id") ? 0 : 1) }
    Process.wait(pid)
    assert_equal 0, $?.exitstatus
    assert sessions.find("id")
  end

  # Threads that wait for each other have a connection each, which the next ones use again.
  def test_as_many_connections_as_threads_at_once
    sessions = sessions(@server.url)
    sessions.create("id", { "n" => 0 })
    before = raw(@server.url) { |redis| Integer(redis.info("stats")["total_connections_received"]) }
    5.times { Array.new(8) { |number| Thread.new { 10.times { |time| change(sessions, "id") { |now| now[number.to_s] = time } } } }.each(&:join) }
    after = raw(@server.url) { |redis| Integer(redis.info("stats")["total_connections_received"]) }
    assert_operator after - before, :<=, 8 + 1
    assert_equal (0..7).to_h { |number| [number.to_s, 9] }.merge("n" => 0), values(sessions, "id").sort.to_h
  end

  def test_bytes_that_are_no_text
    sessions = sessions(@server.url, serializer: :marshal)
    kept = { "b" => (0..255).map(&:chr).join.b, "ü\r\n" => "\r\n$5\r\n" }
    sessions.create("id", kept)
    assert_equal kept, values(sessions, "id")
  end

  # Over TLS, with a password and a database of its own.
  def test_tls_and_password
    Dir.mktmpdir do |folder|
      key, crt = %w[key crt].map { |name| File.join(folder, name) }
      made = system("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
        "-keyout", key, "-out", crt, out: File::NULL, err: File::NULL)
      skip "there is no openssl" unless made
      port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
      SessionBackends::Server.new(SessionBackends::SERVERS.first, "--tls-port", port.to_s, "--tls-cert-file", crt, "--tls-key-file", key, "--tls-ca-cert-file", crt,
        "--tls-auth-clients", "no", "--requirepass", "secret")
      store = "rediss://:secret@localhost:#{port}/2"
      sessions = sessions(store, redis: { ssl_params: { ca_file: crt } })
      sessions.create("id", { "a" => 1 })
      assert_equal({ "a" => 1 }, values(sessions, "id"))
      # A certificate that nobody vouches for, and a wrong password.
      refute_includes unavailable(store), "secret"
      refute_includes unavailable(store.sub("secret", "wrong"), redis: { ssl_params: { ca_file: crt } }), "wrong@"
    end
  end

  def test_valkeys_own_urls
    port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    assert_includes unavailable("valkey://127.0.0.1:#{port}"), "redis://127.0.0.1:#{port}"
    assert_includes unavailable("valkeys://127.0.0.1:#{port}"), "rediss://127.0.0.1:#{port}"
  end

  def test_without_the_gem
    script = 'require "paceline/session/store"; begin; Paceline::Session::Store.new(store: "redis://127.0.0.1"); rescue Paceline::Session::Unavailable => e; puts e.message; end'
    hide = 'module Kernel; alias was require; def require(name) = name == "redis" ? raise(LoadError, name) : was(name); private :require; end; '
    out = IO.popen([RbConfig.ruby, "-I#{File.expand_path("../../lib", __dir__)}", "-e", hide + script], &:read)
    assert_match(/need the gem redis: add `gem "redis"`/, out)
  end
end
