# frozen_string_literal: true

require_relative "support/case"

# The front's socket: what it is told, what becomes of its failures, and what happens without it.
class OutboundFrontTest < OutboundTest
  def setup
    super
    Paceline::HTTP.install!
    @server = server
  end

  def test_what_the_front_is_told
    egress = front
    get("/echo?a=1", "X-One" => "1")
    line, fields, members = egress.calls[0]
    assert_equal "GET http://127.0.0.1:#{@server.port}/echo?a=1 HTTP/1.1", line
    assert_includes fields, ["Host", "127.0.0.1:#{@server.port}"]
    assert_includes fields, ["X-One", "1"]
    assert_nil fields.assoc("Connection")
    # What is taken for granted is not said.
    assert_nil fields.assoc("Paceline-Egress")
    assert_empty members
  end

  def test_each_setting_is_told
    egress = front
    egress.answers = Array.new(20) { answer }
    told = lambda do |tls = true, *proxy, &settings|
      http = Net::HTTP.new("api.test", tls ? 443 : 80, *proxy)
      http.use_ssl = tls
      settings&.call(http)
      http.get("/")
      egress.calls.pop[2]
    end
    assert_equal({}, told.call { |http| http.verify_mode = OpenSSL::SSL::VERIFY_PEER })
    assert_equal({ "open_timeout" => 2.5 }, told.call(false) { |http| http.open_timeout = 2.5 })
    assert_equal({ "open_timeout" => 86_400.0 }, told.call(false) { |http| http.open_timeout = nil })
    assert_equal({ "verify" => false, "address" => "127.0.0.9" }, told.call { |http| http.verify_mode = OpenSSL::SSL::VERIFY_NONE; http.ipaddr = "127.0.0.9" })
    assert_equal({ "verify_host" => false, "tls_min" => "1.2", "tls_max" => "1.3" },
                 told.call { |http| http.verify_hostname = false; http.min_version = :TLS1_2; http.max_version = OpenSSL::SSL::TLS1_3_VERSION })
    assert_equal({ "ca_file" => "/a \"b\\c", "ca_path" => "/certs" }, told.call { |http| http.ca_file = "/a \"b\\c"; http.ca_path = "/certs" })
    cert = Certificates.client
    assert_equal({ "cert" => cert.certificate.to_der + Certificates.authority.certificate.to_der, "key" => cert.key.private_to_der },
                 told.call { |http| http.cert = cert.certificate; http.key = cert.key; http.extra_chain_cert = [Certificates.authority.certificate] })
    assert_equal({ "ca" => Certificates.authority.certificate.to_der },
                 told.call { |http| http.cert_store = OpenSSL::X509::Store.new.tap { |store| store.add_cert(Certificates.authority.certificate) } })
    assert_equal({}, told.call { |http| http.cert_store = OpenSSL::X509::Store.new.tap(&:set_default_paths) })
    system = -> { OpenSSL::X509::Store.new.tap(&:set_default_paths) }
    assert_equal({ "system" => true, "ca_file" => "/a" }, told.call { |http| http.cert_store = system.call; http.ca_file = "/a" })
    assert_equal({ "system" => true, "ca" => Certificates.authority.certificate.to_der },
                 told.call { |http| http.cert_store = system.call.tap { |store| store.add_cert(Certificates.authority.certificate) } })
    ENV["SSL_CERT_FILE"] = Certificates.ca_file
    assert_equal({ "ca_file" => Certificates.ca_file, "ca_path" => OpenSSL::X509::DEFAULT_CERT_DIR }, told.call { |http| http.verify_hostname = true })
    ENV.delete("SSL_CERT_FILE")
    assert_equal({ "proxy" => "http://me%40x:a%20%3Ab@proxy.test:3128" }, told.call(true, "proxy.test", 3128, "me@x", "a :b"))
  end

  def test_the_trace_goes_on
    egress = front
    Paceline::HTTP.trace("00-#{"a" * 32}-#{"b" * 16}-01", "x=y")
    get("/plain")
    get("/plain", "traceparent" => "own")
    Paceline::HTTP.trace(nil, nil)
    get("/plain")
    traces = egress.calls.map { |_, fields,| %w[Traceparent Tracestate].map { |name| fields.assoc(name)&.last } }
    assert_equal [["00-#{"a" * 32}-#{"b" * 16}-01", "x=y"], ["own", nil], [nil, nil]], traces
  ensure
    Paceline::HTTP.trace(nil, nil)
  end

  def test_for_whom_a_call_is_made
    egress = front
    Thread.current.thread_variable_set(:paceline_exchange, "a1-\"b\\2")
    get("/plain")
    assert_equal({ "exchange" => "a1-b2" }, egress.calls[0][2])
  ensure
    Thread.current.thread_variable_set(:paceline_exchange, nil)
  end

  # What the protocol has no word for never reaches the front, so that nothing gets weaker or stricter.
  def test_what_can_not_be_said_is_not_asked_of_the_front
    egress = front
    https = server(tls: :yes)
    [
      ->(http) { http.ciphers = "ECDHE" },
      ->(http) { http.min_version = :TLS1_1 },
      ->(http) { http.verify_depth = 5 },
      # Two files.
      ->(http) { http.cert_store = OpenSSL::X509::Store.new.tap { |store| store.add_file(OpenSSL::X509::DEFAULT_CERT_FILE.then { |file| File.exist?(file) ? file : "/etc/ssl/certs/ca-certificates.crt" }) } }
    ].each do |setting|
      http = Net::HTTP.new("localhost", https.port)
      http.use_ssl = true
      http.ca_file = Certificates.ca_file
      setting.call(http)
      assert_equal "plain", http.get("/plain").body
    end
    assert_empty egress.calls
  end

  def test_where_many_want_to_connect_at_once
    path = File.join(Dir.mktmpdir, "socket")
    listener = UNIXServer.new(path)
    listener.listen(1)
    crowd = []
    loop do
      crowd << Socket.new(:UNIX, :STREAM)
      crowd.last.connect_nonblock(Socket.pack_sockaddr_un(path))
    rescue Errno::EAGAIN
      break
    end
    ENV["PACELINE_EGRESS"] = path
    accepted = []
    accepting = Thread.new { loop { accepted << listener.accept } }
    assert Paceline::HTTP::Front.wire.io.getpeername
  ensure
    accepting&.kill&.join
    [listener, *crowd, *accepted].each(&:close)
    FileUtils.rm_rf(File.dirname(path))
  end

  def test_connections_to_the_front_are_kept
    egress = front
    10.times { get("/plain") }
    assert_equal [10, 1], [egress.calls.size, egress.connections]
  end

  def test_a_front_that_was_restarted_is_found_again
    egress = front
    get("/plain")
    egress.stop
    egress.start
    assert_equal "plain", get("/plain").body
    assert_equal 2, egress.calls.size
  end

  def test_without_a_front_the_call_is_made_from_here
    egress = front
    get("/plain")
    egress.stop
    assert_equal "plain", get("/plain").body
    assert_equal 1, egress.calls.size
    ENV["PACELINE_EGRESS"] = "/nowhere/egress.sock"
    assert_equal "plain", get("/plain").body
  end

  def test_the_socket_is_found_in_the_application_s_folder
    egress = front
    ENV.delete("PACELINE_EGRESS")
    in_tmpdir do |folder|
      Dir.mkdir(File.join(folder, "tmp"))
      File.symlink(egress.path, File.join(folder, "tmp/paceline-egress.sock"))
      Dir.chdir(folder) { get("/plain") }
    end
    assert_equal 1, egress.calls.size
  end

  def test_a_front_that_is_stopped_amid_a_call
    egress = front
    egress.answers = [:close]
    assert_equal "plain", get("/plain").body
    egress.answers = [:close]
    http = Net::HTTP.new("127.0.0.1", @server.port)
    assert_raises(EOFError) { http.post("/plain", "x", "Content-Type" => "text/plain") }
  end

  def test_what_the_front_declines_is_done_from_here_and_not_asked_again
    egress = front
    %w[unsupported request brand_new].each do |kind|
      other = server
      egress.answers = [failure(kind)]
      http = Net::HTTP.new("127.0.0.1", other.port)
      stream = Net::HTTP::Post.new("/echo", "Content-Type" => "text/plain", "Content-Length" => "4")
      stream.body_stream = StringIO.new("body")
      assert http.request(stream).body.end_with?("\nbody")
      asked = egress.calls.size
      assert_equal "200", Net::HTTP.get_response(URI(other.url("/plain"))).code
      assert_equal asked, egress.calls.size
    end
  end

  # A refusal without the front's field is its parser's: the upstream has not been asked.
  ODD = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

  def test_what_the_front_does_not_take_for_http_is_sent_from_here
    egress = front
    [ODD, ODD.sub("400 Bad Request", "414 URI Too Long"), ODD.sub("400 Bad Request", "431 Request Header Fields Too Large")].each do |answer|
      egress.answers = [answer]
      http = Net::HTTP.new("127.0.0.1", @server.port)
      assert_equal "plain", http.get("/plain").body
      assert_equal 1, @server.asked.size
      # The first was refused, the second asks whether it may be made from here.
      assert_equal [{}, { "own" => true }], egress.calls.map { |_, _, members| members }
      assert_equal "GET http://127.0.0.1:#{@server.port}/ HTTP/1.1", egress.calls[1][0]
      # The next request is for the front again.
      http.get("/plain")
      assert_equal 3, egress.calls.size
      egress.calls.clear
      @server.asked
    end
  end

  def test_what_an_upstream_refuses_is_its_answer
    egress = front
    egress.answers = [ODD.sub("\r\n\r\n", "\r\nPaceline-Egress: version=\"1.1\"\r\n\r\n")]
    assert_equal "400", get("/plain").code
    assert_equal 1, egress.calls.size
  end

  def test_a_fragment_is_not_lost
    egress = front
    get("/echo#part")
    assert_equal ["GET /echo#part HTTP/1.1"], @server.asked.map(&:line)
    assert_equal [{ "own" => true }], egress.calls.map { |_, _, members| members }
  end

  def test_nothing_is_sent_from_here_that_is_forbidden
    egress = front
    egress.answers = [ODD, failure('denied; message="not allowed"')]
    error = assert_raises(Paceline::HTTP::Denied) { get("/plain") }
    assert_equal "127.0.0.1: not allowed", error.message
    assert_empty @server.asked
  end

  # Net::HTTP repeats requests, but not its attempt to connect.
  def test_a_connection_that_can_not_be_made_is_not_tried_again
    egress = front
    ['tls; message="invalid peer certificate: UnknownIssuer"', 'connect; errno=110; address="192.0.2.1:81"; message="Connection timed out"', "open_timeout"].each do |field|
      egress.answers = [failure(field)]
      assert_raises(OpenSSL::SSL::SSLError, Errno::ETIMEDOUT, Net::OpenTimeout) { Net::HTTP.new("api.test", 81).get("/") }
      assert_equal 1, egress.calls.size
      egress.calls.clear
    end
  end

  def test_each_failure_is_net_http_s_own
    egress = front
    {
      'resolve; message="Name or service not known"' => [SocketError, /\AFailed to open TCP connection to api.test:81 \(getaddrinfo.*: Name or service not known\)\z/],
      'connect; errno=111; address="192.0.2.1:81"; message="Connection refused"' => [Errno::ECONNREFUSED, /\AFailed to open TCP connection to api.test:81 \(Connection refused - connect\(2\) for /],
      'connect; errno=113; address="192.0.2.1:81"; message="No route"' => [Errno::EHOSTUNREACH, /No route to host/],
      "open_timeout" => [Net::OpenTimeout, /\AFailed to open TCP connection to api.test:81 \(/],
      "deadline" => [Paceline::HTTP::DeadlineExceeded, /./],
      'tls; message="invalid peer certificate: UnknownIssuer"' => [OpenSSL::SSL::SSLError, /certificate verify failed \(invalid peer certificate: UnknownIssuer\)/],
      'tls; message="received fatal alert: HandshakeFailure"' => [OpenSSL::SSL::SSLError, /HandshakeFailure/],
      'proxy; status=407; message="Proxy Authentication Required"' => [Net::HTTPClientException, '407 "Proxy Authentication Required"'],
      'proxy; status=502; message="Bad Gateway"' => [Net::HTTPFatalError, '502 "Bad Gateway"'],
      "closed; sent=?0" => [EOFError, "end of file reached"],
      "reset; errno=104; sent=?1" => [Errno::ECONNRESET, "Connection reset by peer"],
      'protocol; message="wrong \"status\" line"' => [Net::HTTPBadResponse, 'wrong "status" line'],
      "cancelled" => [Paceline::HTTP::ClientGone, /has left/],
      'denied; address="169.254.169.254"; message="link-local"' => [Paceline::HTTP::Denied, "api.test: link-local"],
      'full; message="100 calls wait"' => [Paceline::HTTP::Full, "api.test: 100 calls wait"],
      "open_circuit; retry_after=7" => [Paceline::HTTP::OpenCircuit, /api.test is not asked/]
    }.each do |field, (kind, message)|
      egress.answers = [failure(field), failure(field)]
      http = Net::HTTP.new("api.test", 81)
      http.max_retries = 0
      error = assert_raises(kind, field) { http.get("/") }
      assert message === error.message, "#{field}: #{error.message}"
      assert_equal 7.0, error.retry_after if error.is_a?(Paceline::HTTP::OpenCircuit)
      egress.answers = []
    end
    assert_operator Paceline::HTTP::Denied, :<, SocketError
  end

  # Word for word, on this Ruby: with both address families asked at once (3.4 and newer), and one after the other.
  def test_a_name_that_does_not_resolve_is_told_as_net_http_tells_it
    egress = front
    choices = Socket.respond_to?(:tcp_fast_fallback=) ? [true, false] : [nil]
    choices.each do |both_at_once|
      Socket.tcp_fast_fallback = both_at_once unless both_at_once.nil?
      Paceline::HTTP.uninstall!
      own = assert_raises(SocketError) { Net::HTTP.new("no-such-host.invalid", 81).get("/") }
      Paceline::HTTP.install!
      egress.answers = [failure(%(resolve; message="#{own.message[/: ([^:]*)\)\z/, 1]}"))]
      told = assert_raises(SocketError) { Net::HTTP.new("no-such-host.invalid", 81).get("/") }
      assert_equal [own.class, own.message], [told.class, told.message]
    end
  ensure
    Socket.tcp_fast_fallback = true if Socket.respond_to?(:tcp_fast_fallback=)
  end

  def test_an_upstream_can_not_pose_as_the_front_s_word_twice
    egress = front
    egress.answers = ["HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Own: 1\r\nPaceline-Egress: version=\"2\", new=?0\r\n\r\n"]
    response = Net::HTTP.new("api.test").get("/")
    assert_equal({ "content-length" => ["0"], "x-own" => ["1"] }, response.to_hash)
  end

  # Until the first byte the front may be connecting: it is the one to say that this takes too long.
  def test_which_time_the_first_byte_has
    wire = Paceline::HTTP::FrontWire.new(nil, "x")
    patience = lambda do |read, open|
      wire.lend(read, 60, nil)
      wire.announce("", nil, open)
      wire.begin
      wire.send(:patience)
    end
    assert_equal 61, patience.call(60, 60)
    assert_equal 30, patience.call(30, 5)
    assert_equal 1, patience.call(1, 60)
    assert_nil patience.call(nil, 60)
  end

  def test_requests_that_are_not_for_the_socket
    egress = front
    http = Net::HTTP.new("127.0.0.1", @server.port)
    http.get("/plain", "Upgrade" => "websocket", "Connection" => "Upgrade")
    http.request(Net::HTTP::Options.new("*"))
    http.continue_timeout = 1
    http.post("/plain", "x", "Content-Type" => "text/plain")
    assert_empty egress.calls
    assert_equal(%w[/plain * /plain], @server.asked.map(&:target))
  end

  def test_the_address_of_another_user_s_socket_is_not_trusted
    egress = front
    File.chown(65_534, 65_534, egress.path) if Process.euid.zero?
    skip "only root can make a file that is another's" unless Process.euid.zero?
    reader, writer = IO.pipe
    pid = fork do
      Process::UID.change_privilege(1234)
      code = Net::HTTP.new("127.0.0.1", @server.port).get("/plain").code
      writer.write("#{code} #{Paceline::HTTP::Front.wire.inspect}")
      exit!(0)
    end
    writer.close
    assert_equal "200 nil", reader.read
    Process.wait(pid)
    assert_empty egress.calls
  end

  private

  def get(path, fields = {})
    Net::HTTP.new("127.0.0.1", @server.port).get(path, fields)
  end

  def answer
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
  end

  def failure(field)
    "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nPaceline-Egress-Error: #{field}\r\n\r\n"
  end
end
