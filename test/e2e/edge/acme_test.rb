# Certificates that the server gets by itself, from Pebble: a real ACME server that really validates. Run by test/acme/run.
require_relative "../support/scenario"
require_relative "../support/pebble"

class AcmeTest < Minitest::Test
  include Scenario

  APP = 'run lambda { |env| [200, {}, ["#{env["rack.url_scheme"]} #{env["HTTP_HOST"]} #{env["PATH_INFO"]}"]] }'.freeze

  def setup
    @http, @https, @dead = Pebble.ports(3)
  end

  def teardown
    super
    warn "--- what Pebble printed\n#{@pebble.log}\n---" if @pebble && !passed?
    @pebble&.stop
  end

  # Pebble validates at our ports, or at one where nobody is.
  def pebble(http: @http, tls: @https, **options) = @pebble = Pebble.new(http:, tls:, **options)

  def folder(*hosts, top: "", directory: @pebble.directory)
    app("config.ru" => APP, "ca.pem" => @pebble ? File.read(@pebble.ca_file) : "", "paceline.toml" => <<~TOML)
      tls = "auto"
      acme_email = "owner@shop.test"
      acme_directory = "#{directory}"
      acme_ca_file = "ca.pem"
      acme_dir = "kept"
      #{top}
      [[site]]
      root = "."
      host = #{hosts.inspect}
    TOML
  end

  def start(dir, http: true, https: true)
    binds = []
    binds += ["-b", "http://127.0.0.1:#{@http}"] if http
    binds += ["-b", "https://127.0.0.1:#{@https}"] if https
    serve(dir, *binds, port: false)
  end

  # Connects as a browser would that trusts the authority; yields the socket.
  def connect(host, alpn: nil)
    context = OpenSSL::SSL::SSLContext.new
    context.cert_store = OpenSSL::X509::Store.new.tap { |store| store.add_cert(@pebble.root) }
    context.verify_mode = OpenSSL::SSL::VERIFY_PEER
    context.verify_hostname = true
    context.alpn_protocols = alpn if alpn
    socket = OpenSSL::SSL::SSLSocket.new(TCPSocket.new("127.0.0.1", @https), context)
    socket.hostname = host if host
    socket.sync_close = true
    socket.connect
    yield socket
  ensure
    socket&.close
  end

  def get(host, path = "/")
    connect(host) do |socket|
      socket.write("GET #{path} HTTP/1.1\r\nHost: #{host}\r\nConnection: close\r\n\r\n")
      socket.read
    end
  end

  def serial(host) = connect(host) { |socket| socket.peer_cert.serial }

  def plain(host, path)
    Socket.tcp("127.0.0.1", @http) do |socket|
      socket.write("GET #{path} HTTP/1.1\r\nHost: #{host}\r\nConnection: close\r\n\r\n")
      socket.read
    end
  end

  def test_over_http_and_kept_for_the_next_start
    pebble(tls: @dead)
    dir = folder("shop.test", top: "redirect_https = true")
    server = start(dir)
    server.wait_for(/shop.test: certificate obtained, valid until \d{4}-\d\d-\d\d/)

    assert_match(/\AHTTP\/1.1 200 .*https shop.test \/x\z/m, get("shop.test", "/x"))
    assert_match(/validate w\/ HTTP/, @pebble.log)
    assert_match(/\AHTTP\/1.1 301 /, plain("shop.test", "/.well-known/acme-challenge/unknown"))
    kept = Dir[File.join(dir, "kept/*/*")]
    assert_equal %w[account.json shop.test.pem], kept.map { |path| File.basename(path) }.sort
    kept.each { |path| assert_equal 0o600, File.stat(path).mode & 0o777, path }
    assert_equal 0o700, File.stat(File.dirname(kept.first)).mode & 0o777

    before = serial("shop.test")
    assert_equal 0, server.stop.exitstatus
    server = start(dir)

    assert_equal before, serial("shop.test")
    assert_equal 0, server.stop.exitstatus
    refute_match(/certificate/, server.output)
    assert_equal [1, 1], [@pebble.orders, @pebble.accounts]
  end

  def test_over_tls_alone
    pebble(http: @dead)
    server = start(folder("shop.test"), http: false)
    server.wait_for(/shop.test: certificate obtained/)

    assert_match(/https shop.test \//, get("shop.test"))
    refute_match(/validate w\/ HTTP/, @pebble.log)
    assert_equal "h2", connect("shop.test", alpn: %w[h2 http/1.1]) { |socket| socket.alpn_protocol }
    assert_equal "http/1.1", connect("shop.test", alpn: %w[acme-tls/1 http/1.1]) { |socket| socket.alpn_protocol }
    # Nobody validates any more.
    assert_raises(OpenSSL::SSL::SSLError) { connect("shop.test", alpn: %w[acme-tls/1]) { flunk } }
  end

  def test_renewed_ahead_of_time
    pebble(lifetime: 9)
    server = start(folder("shop.test"))
    server.wait_for(/shop.test: certificate obtained/)
    first = serial("shop.test")

    server.wait_for(/shop.test: certificate renewed/)

    refute_equal first, serial("shop.test")
    assert_match(/ 200 /, get("shop.test"))
    assert_equal 1, @pebble.accounts
  end

  def test_a_host_that_fails_stands_in_nobodys_way
    pebble
    @pebble.lead("lost.test", "127.0.0.99")
    server = start(folder("lost.test", "shop.test"))

    server.wait_for(/shop.test: certificate obtained/)
    server.wait_for(/lost.test: no certificate yet: the authority says: .*; let the internet reach this server at lost.test, port 80 \(HTTP-01\); trying again in (?:1m|6\ds)/)
    assert_match(/ 200 /, get("shop.test"))
    2.times { assert_raises(OpenSSL::SSL::SSLError) { connect("lost.test") { flunk } } }
    assert_raises(OpenSSL::SSL::SSLError) { connect("else.test") { flunk } }
    server.wait_for(/lost.test: connections over https are refused until it has a certificate/)
    assert_match(/ 200 .*http lost.test/m, plain("lost.test", "/"))
    assert_equal 0, server.stop.exitstatus
    assert_equal 2, server.output.scan(/^\* lost.test: /).size, server.output
  end

  def test_no_authority_to_be_reached
    @pebble = nil
    dir = folder("shop.test", directory: "https://127.0.0.1:#{@dead}/dir")
    write(dir, "ca.pem" => Authority.new.certificate.to_pem)
    server = start(dir)

    server.wait_for(/shop.test: no certificate yet: https:\/\/127.0.0.1:#{@dead}\/dir: .*refused.*; it must be reachable from here; .*; trying again in/i)
    assert_match(/ 200 /, plain("shop.test", "/"))
  end

  def test_an_account_that_the_authority_has_forgotten
    pebble
    dir = folder("shop.test")
    server = start(dir)
    server.wait_for(/shop.test: certificate obtained/)
    server.stop
    account = Dir[File.join(dir, "kept/*/account.json")].first
    known = File.read(account)
    File.write(account, known.sub(/my-account\/\w+/, "my-account/gone"))
    refute_equal known, File.read(account)
    File.delete(Dir[File.join(dir, "kept/*/shop.test.pem")].first)

    start(dir).wait_for(/shop.test: no certificate yet: the authority says: .*; a new account is made; trying again in/)
    refute_path_exists account
  end

  def test_what_is_wrong_at_the_start_is_told_in_a_line
    dir = folder("*.shop.test", directory: "https://ca.test/dir")
    server = serve(dir, "-b", "https://127.0.0.1:0", port: false, ready: false)
    assert_operator server.wait.exitstatus, :>, 0
    assert_match(/paceline.toml:\d+:\d+: host "\*.shop.test" cannot have tls = "auto": a wildcard certificate/, server.output)

    dir = folder("shop.test", directory: "https://ca.test/dir")
    write(dir, "kept" => "a file")
    server = serve(dir, "-b", "https://127.0.0.1:0", port: false, ready: false)
    assert_operator server.wait.exitstatus, :>, 0
    assert_match(/kept\/ca.test_dir: certificates cannot be kept here: .*; set acme_dir/, server.output)
    assert_equal 1, server.output.strip.lines.size, server.output
  end
end
