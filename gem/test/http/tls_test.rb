# frozen_string_literal: true

require_relative "support/case"
require "rbconfig"

# TLS: as strict as Net::HTTP, whichever way the call goes; contexts, sessions and stores that are shared.
class OutboundTLSTest < OutboundTest
  WAYS = %i[plain lent front].freeze

  def test_an_unknown_authority_is_refused
    each_way(server(tls: :yes)) do |http|
      error = assert_raises(OpenSSL::SSL::SSLError) { http.get("/plain") }
      assert_includes error.message, "certificate verify failed"
    end
  end

  def test_a_file_of_authorities
    each_way(server(tls: :yes)) do |http|
      http.ca_file = Certificates.ca_file
      assert_equal "plain", http.get("/plain").body
    end
  end

  def test_a_certificate_of_another_name_is_refused
    each_way(server(tls: :elsewhere)) do |http|
      http.ca_file = Certificates.ca_file
      error = assert_raises(OpenSSL::SSL::SSLError) { http.get("/plain") }
      assert_match(/hostname .* does not match|certificate verify failed/, error.message)
    end
  end

  def test_another_name_may_be_allowed
    each_way(server(tls: :elsewhere)) do |http|
      http.ca_file = Certificates.ca_file
      http.verify_hostname = false
      assert_equal "plain", http.get("/plain").body
    end
  end

  def test_verification_may_be_off
    each_way(server(tls: :elsewhere)) do |http|
      http.verify_mode = OpenSSL::SSL::VERIFY_NONE
      assert_equal "plain", http.get("/plain").body
    end
  end

  def test_what_was_let_through_once_is_not_lent_to_who_is_strict
    server = server(tls: :elsewhere)
    Paceline::HTTP.install!
    lax = https(server)
    lax.verify_mode = OpenSSL::SSL::VERIFY_NONE
    assert_equal "plain", lax.get("/plain").body
    assert_raises(OpenSSL::SSL::SSLError) { https(server).get("/plain") }
    by_own = https(server)
    by_own.ca_file = Certificates.ca_file
    assert_raises(OpenSSL::SSL::SSLError) { by_own.get("/plain") }
  end

  def test_an_address_in_place_of_a_name
    server = server(tls: :yes)
    each_way(server, "127.0.0.1") do |http|
      http.ca_file = Certificates.ca_file
      assert_equal "plain", http.get("/plain").body
    end
  end

  # OpenSSL looks at no address by itself.
  def test_an_address_that_the_certificate_does_not_name_is_refused
    each_way(server(tls: :elsewhere), "127.0.0.1") do |http|
      http.ca_file = Certificates.ca_file
      error = assert_raises(OpenSSL::SSL::SSLError) { http.get("/plain") }
      assert_match(/does not match|hostname mismatch|not valid for name/, error.message)
    end
  end

  def test_what_is_not_the_same_is_told_apart
    cert = Certificates.client
    again = OpenSSL::X509::Certificate.new(cert.certificate.to_der).tap { |one| one.serial = 7; one.sign(cert.key, "SHA256") }
    settings = [
      {}, { verify_mode: OpenSSL::SSL::VERIFY_NONE }, { verify_hostname: false }, { ca_file: "/a" }, { ca_path: "/a" }, { ciphers: "ECDHE" }, { min_version: :TLS1_3 }, { max_version: :TLS1_2 },
      { cert: cert.certificate }, { cert: cert.certificate, key: cert.key }, { cert: again, key: cert.key }, { cert: cert.certificate, key: cert.key, extra_chain_cert: [again] },
      { cert_store: OpenSSL::X509::Store.new.tap { |store| store.add_cert(again) } }, { cert_store: OpenSSL::X509::Store.new.tap { |store| store.add_cert(cert.certificate) } }
    ]
    trusts = settings.map { |given| Paceline::HTTP::Trust.of(Net::HTTP.new("x").tap { |http| given.each { |name, value| http.public_send(:"#{name}=", value) } }) }
    assert_equal settings.size, trusts.map(&:key).uniq.size
    assert_equal settings.size, trusts.uniq.size
    system = Paceline::HTTP::Trust.of(Net::HTTP.new("x").tap { |http| http.cert_store = OpenSSL::X509::Store.new.tap(&:set_default_paths) })
    assert_same trusts[0], system
  end

  def test_a_store
    each_way(server(tls: :yes)) do |http|
      http.cert_store = OpenSSL::X509::Store.new.tap { |store| store.add_cert(Certificates.authority.certificate) }
      assert_equal "plain", http.get("/plain").body
    end
  end

  def test_a_client_certificate
    each_way(server(tls: :client)) do |http|
      http.ca_file = Certificates.ca_file
      http.cert = Certificates.client.certificate
      http.key = Certificates.client.key
      assert_equal "plain", http.get("/plain").body
    end
  end

  def test_one_client_s_connection_is_not_lent_to_another
    server = server(tls: :client)
    Paceline::HTTP.install!
    http = https(server)
    http.ca_file = Certificates.ca_file
    http.cert, http.key = Certificates.client.certificate, Certificates.client.key
    http.get("/plain")
    other = https(server)
    other.ca_file = Certificates.ca_file
    assert_raises(OpenSSL::SSL::SSLError, Errno::ECONNRESET, EOFError) { other.get("/plain") }
  end

  def test_equal_settings_share_a_connection_whoever_made_the_objects
    server = server(tls: :client)
    Paceline::HTTP.install!
    5.times do
      http = https(server)
      http.cert_store = OpenSSL::X509::Store.new.tap { |store| store.add_file(Certificates.ca_file) }
      http.cert = OpenSSL::X509::Certificate.new(Certificates.client.certificate.to_der)
      http.key = OpenSSL::PKey.read(Certificates.client.key.to_pem)
      assert_equal "plain", http.get("/plain").body
    end
    assert_equal 1, server.connections
  end

  def test_a_store_like_no_other_is_not_shared
    server = server(tls: :yes)
    Paceline::HTTP.install!
    2.times do
      http = https(server)
      http.cert_store = OpenSSL::X509::Store.new.tap do |store|
        store.add_file(Certificates.ca_file)
        store.flags = OpenSSL::X509::V_FLAG_PARTIAL_CHAIN
      end
      assert_equal "plain", http.get("/plain").body
    end
    assert_equal [2, 0], [server.connections, Paceline::HTTP.pool.size]
  end

  def test_a_callback_is_called_for_each_connection
    server = server(tls: :yes)
    Paceline::HTTP.install!
    called = 0
    2.times do
      http = https(server)
      http.ca_file = Certificates.ca_file
      http.verify_callback = ->(good, _) { called += 1; good }
      http.get("/plain")
    end
    assert_operator called, :>=, 2
    assert_equal [2, 0], [server.connections, Paceline::HTTP.pool.size]
  end

  def test_sessions_are_resumed
    server = server(tls: :yes)
    Paceline::HTTP.install!
    3.times do
      http = https(server)
      http.ca_file = Certificates.ca_file
      http.get("/plain")
      Paceline::HTTP.close
    end
    assert_equal [3, 2], [server.connections, server.resumed]
  end

  def test_a_file_that_was_exchanged_is_read_again
    server = server(tls: :yes)
    Paceline::HTTP.install!
    in_tmpdir("ca.pem" => Certificates.issue("/CN=Another", ca: true).certificate.to_pem) do |folder|
      file = File.join(folder, "ca.pem")
      get = -> { https(server).tap { |http| http.ca_file = file }.get("/plain").body }
      assert_raises(OpenSSL::SSL::SSLError, &get)
      File.write("#{file}.new", Certificates.authority.certificate.to_pem)
      File.rename("#{file}.new", file)
      assert_equal "plain", get.call
    end
  end

  def test_peer_cert
    subjects = []
    each_way(server(tls: :yes)) do |http|
      http.ca_file = Certificates.ca_file
      assert_nil http.peer_cert
      http.start { subjects << [http.peer_cert.subject.to_s, http.get("/plain").body, http.peer_cert.subject.to_s] }
    end
    assert_equal [["/CN=localhost", "plain", "/CN=localhost"]] * 3, subjects
  end

  # That of another connection, since the one that the response comes on is the front's.
  def test_peer_cert_while_a_response_is_read
    each_way(server(tls: :yes)) do |http|
      http.ca_file = Certificates.ca_file
      seen = []
      http.request_get("/big") { |response| seen << http.peer_cert.subject.to_s << response.read_body.bytesize }
      assert_equal ["/CN=localhost", HostileServer::BIG.bytesize], seen
    end
  end

  # The system's certificates are read when a store is used, and not before; but then they are, whoever uses it.
  def test_reading_the_system_s_certificates_is_put_off
    Paceline::HTTP.install!
    in_tmpdir do
      with_default_file(Certificates.ca_file) do
        certificate = Certificates.server.certificate
        store = OpenSSL::X509::Store.new
        store.set_default_paths
        assert store.instance_variable_get(:@paceline_pending)
        assert store.verify(certificate), store.error_string
        second = OpenSSL::X509::Store.new.tap(&:set_default_paths)
        assert OpenSSL::X509::StoreContext.new(second, certificate).verify
        third = OpenSSL::X509::Store.new
        context = OpenSSL::SSL::SSLContext.new
        context.cert_store = third
        third.set_default_paths
        refute third.instance_variable_get(:@paceline_pending)
        assert third.verify(certificate)
      end
    end
  end

  # A certificate that the application has put into OpenSSL's own store holds for those who name no store, and for nobody else.
  def test_a_certificate_in_the_default_store
    program = <<~RUBY
      require "paceline/http"
      Paceline::HTTP.install!
      get = lambda do |store = nil|
        http = Net::HTTP.new("localhost", Integer(ARGV[0]))
        http.use_ssl = true
        http.cert_store = store if store
        http.get("/plain").body
      rescue OpenSSL::SSL::SSLError
        "refused"
      end
      system = -> { OpenSSL::X509::Store.new.tap(&:set_default_paths) }
      found = [get.call, get.call(system.call)]
      OpenSSL::SSL::SSLContext::DEFAULT_CERT_STORE.add_file(ARGV[1])
      print [*found, get.call, get.call(system.call), get.call].join(" ")
    RUBY
    [nil, front].each do |egress|
      https = server(tls: :yes)
      environment = { "PACELINE_EGRESS" => egress ? egress.path : "off" }
      assert_equal "refused refused plain refused plain", IO.popen([environment, RbConfig.ruby, "-I#{File.expand_path("../../lib", __dir__)}", "-e", program, https.port.to_s, Certificates.ca_file], &:read)
    end
  end

  def test_what_is_in_a_store
    stores = Paceline::HTTP::Stores
    store = OpenSSL::X509::Store.new
    assert_equal [], stores.content(store)
    store.add_file(Certificates.ca_file)
    store.add_cert(Certificates.client.certificate)
    assert_equal [[:file, Certificates.ca_file], [:certificate, Certificates.client.certificate.to_der]], stores.content(store)
    store.time = Time.now
    assert_nil stores.content(store)
    assert_equal [[:defaults]], stores.content(OpenSSL::SSL::SSLContext::DEFAULT_CERT_STORE)
  end

  private

  def https(server, host = "localhost")
    Net::HTTP.new(host, server.port).tap do |http|
      http.use_ssl = true
      http.max_retries = 0
    end
  end

  def each_way(server, host = "localhost")
    WAYS.each do |way|
      egress = (front if way == :front)
      ENV["PACELINE_EGRESS"] = "off" unless egress
      way == :plain ? Paceline::HTTP.uninstall! : Paceline::HTTP.install!
      yield https(server, host)
      refute_empty egress.calls, "the front was not asked" if egress && name != "test_peer_cert"
    end
  end

  def with_default_file(path)
    before = ENV["SSL_CERT_FILE"]
    ENV["SSL_CERT_FILE"] = path
    yield
  ensure
    ENV["SSL_CERT_FILE"] = before
  end
end
