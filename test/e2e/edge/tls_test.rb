# TLS from certificate files: chosen by name, exchanged while running, refused in one line when they are wrong.
require_relative "../support/scenario"
require_relative "../support/certificates"
require_relative "../support/web_socket"

class TlsTest < Minitest::Test
  include Scenario

  ECHO = <<~'RUBY'.freeze
    run lambda { |env|
      names = %w[rack.url_scheme HTTPS SERVER_NAME SERVER_PORT SERVER_PROTOCOL]
      [200, { "content-type" => "text/plain" }, [names.map { |name| env[name].to_s }.join(" ")]]
    }
  RUBY

  def authority = @authority ||= Authority.new

  def serve_tls(files = {}, toml: "", pairs: { "shop" => ["shop.test", "*.shop.test"] })
    dir = app({ "config.ru" => ECHO }.merge(files))
    tables = pairs.map { |name, hosts| authority.write(dir, name, *hosts) && "[[tls]]\ncert = \"#{name}.pem\"\nkey = \"#{name}.key\"\n" }
    write(dir, "paceline.toml" => "#{toml}\n#{tables.join}")
    server = serve(dir, "-b", "https://127.0.0.1:0")
    server.wait_for(/Listening on https:\/\/\S+:(\d+)/) { |match| server.port = Integer(match[1]) }
    server
  end

  def serve(dir, *arguments, **options) = super(dir, *arguments, port: false, **options)

  def get(server, host = "shop.test", **options)
    authority.connect(server.port, host, **options) do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: #{host}\r\nConnection: close\r\n\r\n")
      socket.read
    end
  end

  def test_the_app_knows_that_it_is_asked_over_tls
    server = serve_tls

    answer = get(server)

    assert_match(/\AHTTP\/1.1 200 /, answer)
    assert answer.end_with?("https on shop.test 443 HTTP/1.1"), answer
  end

  def test_tls_1_2_and_1_3_and_nothing_older
    server = serve_tls

    assert_match(/ 200 /, get(server, max_version: OpenSSL::SSL::TLS1_2_VERSION))
    assert_match(/ 200 /, get(server, min_version: OpenSSL::SSL::TLS1_3_VERSION))
    assert_raises(OpenSSL::SSL::SSLError) { get(server, max_version: OpenSSL::SSL::TLS1_1_VERSION) }
  end

  def test_certificates_are_chosen_by_name
    server = serve_tls(pairs: { "shop" => ["shop.test", "*.shop.test"], "blog" => ["blog.test", "deep.shop.test"] })

    shown = ["shop.test", "www.shop.test", "blog.test", "deep.shop.test", "a.b.shop.test", "other.test", nil]
      .map { |host| authority.shown(server.port, host).first }

    assert_equal %w[shop.test shop.test blog.test blog.test shop.test shop.test shop.test], shown
  end

  def test_a_new_certificate_is_used_without_dropping_a_connection
    server = serve_tls
    old = authority.connect(server.port, "shop.test")
    old.write("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
    read_response(old)

    authority.write(server.dir, "shop", "shop.test", "new.test")
    server.wait_for(/shop.pem: changed, and used from now on/)

    assert_equal %w[shop.test new.test], authority.shown(server.port, "shop.test")
    assert_equal %w[shop.test new.test], authority.shown(server.port, "new.test")
    old.write("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
    assert_match(/ 200 /, read_response(old))
    old.close
  end

  def test_a_broken_new_certificate_leaves_the_old_one
    server = serve_tls

    write(server.dir, "shop.key" => authority.issue("shop.test").last)
    server.wait_for(/shop.key: is not the key of .*shop.pem; the certificate read before stays in use/)
    write(server.dir, "shop.pem" => "garbage")
    server.wait_for(/shop.pem: holds no certificate in PEM; the certificate read before stays in use/)

    assert_equal %w[shop.test *.shop.test], authority.shown(server.port, "shop.test")
    assert_equal 2, server.output.scan("stays in use").size
    authority.write(server.dir, "shop", "mended.test")
    server.wait_for(/used from now on/)
    assert_equal %w[mended.test], authority.shown(server.port, nil)
  end

  def test_puma_spelling
    dir = app("config.ru" => ECHO)
    cert, key = authority.write(dir, "a b", "shop.test")
    server = serve(dir, "-b", "ssl://127.0.0.1:0?cert=#{cert.gsub(" ", "%20")}&key=#{key.gsub(" ", "%20")}&verify_mode=none")
    server.wait_for(/Listening on https:\/\/\S+:(\d+)/) { |match| server.port = Integer(match[1]) }

    assert_match(/ 200 /, get(server))
  end

  def test_puma_config
    dir = app("config.ru" => ECHO)
    authority.write(dir, "a b", "shop.test")
    write(dir, "config/puma.rb" => 'ssl_bind "127.0.0.1", 0, cert: "a b.pem", key: "a b.key", verify_mode: "none"')
    server = serve(dir)
    server.wait_for(/Listening on https:\/\/\S+:(\d+)/) { |match| server.port = Integer(match[1]) }

    assert_match(/ 200 /, get(server))
  end

  def test_what_is_wrong_at_the_start_is_told_in_a_line
    dir = app("config.ru" => ECHO)
    authority.write(dir, "one", "one.test")
    authority.write(dir, "two", "two.test")
    {
      "https://127.0.0.1:0" => /TLS needs a certificate: add \[\[tls\]\]/,
      "ssl://127.0.0.1:0?cert=one.pem" => /cert and key belong together/,
      "ssl://127.0.0.1:0?cert=none.pem&key=one.key" => /none.pem: cannot be read: No such file/,
      "ssl://127.0.0.1:0?cert=one.pem&key=two.key" => /two.key: is not the key of .*one.pem/,
      "ssl://127.0.0.1:0?cert=one.key&key=one.key" => /one.key: holds no certificate/,
      "ssl://127.0.0.1:0?cert=one.pem&key=one.pem" => /one.pem: holds no private key/
    }.each do |bind, told|
      server = serve(dir, "-b", bind, ready: false)
      assert_operator server.wait.exitstatus, :>, 0
      assert_match told, server.output
      assert_equal 1, server.output.strip.lines.size, server.output
    end
  end

  def test_check_looks_at_certificates
    dir = app("config.ru" => ECHO)
    authority.write(dir, "shop", "shop.test")
    check = lambda {
      IO.popen([{ "PACELINE_GEM_DIR" => File.join(CHECKOUT, "gem") }, BIN, "check", "-b", "ssl://127.0.0.1:0?cert=shop.pem&key=shop.key"],
               chdir: dir, err: %i[child out], &:read)
    }

    assert_match(/^listen  https:\/\/127.0.0.1:0$/, check.call)
    write(dir, "shop.pem" => "")
    assert_match(/^WRONG   .*shop.pem: holds no certificate in PEM$/, check.call)
  end

  def test_a_key_that_everybody_can_read_is_told_once
    dir = app("config.ru" => ECHO)
    authority.write(dir, "shop", "shop.test")
    File.chmod(0o644, File.join(dir, "shop.key"))
    server = serve(dir, "-b", "ssl://127.0.0.1:0?cert=shop.pem&key=shop.key")

    assert_equal 1, server.output.scan(/shop.key: every user of this machine can read this key/).size
  end

  def test_a_handshake_has_its_time
    server = serve_tls(toml: 'tls_handshake_timeout = "300ms"')

    from = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    assert_empty(server.connect { |socket| socket.read })
    assert_in_delta 0.3, Process.clock_gettime(Process::CLOCK_MONOTONIC) - from, 5
    assert_match(/ 200 /, get(server))
  end

  def test_web_socket_over_tls
    dir = { "config.ru" => <<~'RUBY' }
      require "digest"
      run lambda { |env|
        accept = [Digest::SHA1.digest(env["HTTP_SEC_WEBSOCKET_KEY"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")].pack("m0")
        talk = lambda { |io| io.write(io.readpartial(100)); io.close }
        [101, { "upgrade" => "websocket", "connection" => "Upgrade", "sec-websocket-accept" => accept, "rack.hijack" => talk }, []]
      }
    RUBY
    server = serve_tls(dir)

    authority.connect(server.port, "shop.test") do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" \
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: #{["x" * 16].pack("m0")}\r\n\r\n")
      assert_match(/\AHTTP\/1.1 101 /, socket.gets)
      loop { break if socket.gets == "\r\n" }
      socket.write("there and back")
      assert_equal "there and back", socket.read
    end
  end

  def test_stopping_ends_idle_connections
    server = serve_tls
    idle = authority.connect(server.port, "shop.test")
    idle.write("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
    read_response(idle)

    assert_equal 0, server.stop.exitstatus
    assert_equal "", idle.read.to_s
  end

  private

  def read_response(socket)
    head = +""
    head << socket.gets until head.end_with?("\r\n\r\n")
    head + socket.read(head[/content-length: (\d+)/i, 1].to_i)
  end
end
