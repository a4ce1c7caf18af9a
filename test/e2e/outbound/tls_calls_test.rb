# Outbound calls over TLS and through proxies: who is believed, and who we are.
require_relative "../support/egress_scenario"

class EgressTlsTest < Minitest::Test
  include EgressScenario

  # --- certificates

  def test_certificates_are_verified_as_by_net_http
    front
    ours, theirs = Authority.new, Authority.new
    file = ours.file(@dir)
    good = secure(ours, "localhost", "127.0.0.1", &serving_ok)
    trusting = %(ca_file="#{file}")
    assert_equal "ok", call("https://localhost:#{good.port}/", trusting).body
    assert_equal "ok", call("https://localhost:#{good.port}/", "#{trusting}, system").body
    assert_equal "ok", call("https://127.0.0.1:#{good.port}/", trusting).body
    assert_equal %(tls;message="invalid peer certificate: UnknownIssuer"), error(call("https://localhost:#{good.port}/"))
    stranger = secure(theirs, "localhost", &serving_ok)
    # The authorities have one name.
    assert_equal %(tls;message="invalid peer certificate: BadSignature"), error(call("https://localhost:#{stranger.port}/", trusting))
    assert_equal "ok", call("https://localhost:#{stranger.port}/", "verify=?0").body
    assert_match(/\Atls;/, error(call("https://localhost:#{stranger.port}/", trusting)), "a connection that nobody verified is not lent to who wants it verified")
    misnamed = secure(ours, "other.example", &serving_ok)
    assert_match(/not valid for name|NotValidForName/, error(call("https://localhost:#{misnamed.port}/", trusting)))
    assert_equal "ok", call("https://localhost:#{misnamed.port}/", "#{trusting}, verify_host=?0").body
    assert_match(/\Atls;/, error(call("https://localhost:#{stranger.port}/", "#{trusting}, verify_host=?0")), "the chain still is")
    assert_equal "ok", call("https://localhost:#{misnamed.port}/", %(#{trusting}, sni="other.example")).body
  end

  def test_a_certificate_that_is_trusted_itself
    front
    key = OpenSSL::PKey::EC.generate("prime256v1")
    own = { "authority" => "CA:TRUE", "plain" => "CA:FALSE" }.to_h do |name, constraints|
      certificate = OpenSSL::X509::Certificate.new
      certificate.version, certificate.serial, certificate.public_key = 2, 1, key
      certificate.subject = certificate.issuer = OpenSSL::X509::Name.new([["CN", "localhost"]])
      certificate.not_before, certificate.not_after = Time.now - 60, Time.now + 3600
      factory = OpenSSL::X509::ExtensionFactory.new
      certificate.add_extension(factory.create_extension("subjectAltName", "DNS:localhost"))
      certificate.add_extension(factory.create_extension("basicConstraints", constraints, true))
      certificate.sign(key, "SHA256")
      File.write(File.join(@dir, "#{name}.pem"), certificate.to_pem)
      [name, certificate]
    end
    own.each do |name, certificate|
      to = secure(Authority.new, "x", change: ->(context) { context.cert, context.key = certificate, key }, &serving_ok)
      assert_equal "ok", call("https://localhost:#{to.port}/", %(ca_file="#{@dir}/#{name}.pem")).body, name
      assert_match(/not valid for name|NotValidForName/, error(call("https://127.0.0.1:#{to.port}/", %(ca_file="#{@dir}/#{name}.pem"))), name)
      assert_match(/\Atls;/, error(call("https://localhost:#{to.port}/", %(ca_file="#{@dir}/#{(own.keys - [name]).first}.pem"))).to_s, name) if name == "authority"
    end
  end

  def test_expired_certificates_and_changed_files
    front
    authority, other = Authority.new, Authority.new
    file = other.file(@dir)
    to = secure(authority, "localhost", &serving_ok)
    assert_match(/\Atls;/, error(call("https://localhost:#{to.port}/", %(ca_file="#{file}"))))
    File.write("#{file}.new", authority.certificate.to_pem)
    File.utime(Time.now + 5, Time.now + 5, "#{file}.new")
    File.rename("#{file}.new", file)
    assert_equal "ok", call("https://localhost:#{to.port}/", %(ca_file="#{file}")).body, "the file has changed"
    expired = lambda do |context|
      certificate = context.cert
      certificate.not_after = Time.now - 10
      certificate.sign(authority.instance_variable_get(:@key), "SHA256")
    end
    late = secure(authority, "localhost", change: expired, &serving_ok)
    assert_match(/\Atls;message="invalid peer certificate: certificate expired/, error(call("https://localhost:#{late.port}/", %(ca_file="#{file}"))))
    assert_match(/\Atls;message=/, error(call("https://localhost:#{to.port}/", %(ca_file="#{@dir}/none.pem"))))
  end

  def test_who_we_are
    front
    authority = Authority.new
    certificate, key = authority.issue("client")
    demanding = lambda do |context|
      context.verify_mode = OpenSSL::SSL::VERIFY_PEER | OpenSSL::SSL::VERIFY_FAIL_IF_NO_PEER_CERT
      context.cert_store = OpenSSL::X509::Store.new.tap { |store| store.add_cert(authority.certificate) }
    end
    to = secure(authority, "localhost", change: demanding) do |link, _, tls|
      link.answer(tls.peer_cert.subject.to_s) while link.head
    end
    trusting = %(ca_file="#{authority.file(@dir)}")
    der = ->(bytes) { ":#{[bytes].pack("m0")}:" }
    identity = "cert=#{der[OpenSSL::X509::Certificate.new(certificate).to_der]}, key=#{der[OpenSSL::PKey.read(key).private_to_der]}"
    assert_equal "/CN=client", call("https://localhost:#{to.port}/", "#{trusting}, #{identity}").body
    refute_equal 200, call("https://localhost:#{to.port}/", trusting).status, "that connection is not for everybody"
  end

  def test_sessions_are_resumed_and_versions_bounded
    front
    authority = Authority.new
    trusting = %(ca_file="#{authority.file(@dir)}")
    to = secure(authority, "localhost", change: ->(context) { context.max_version = :TLS1_2 }) do |link, _, tls|
      link.write(OK.sub("\r\n", "\r\nX-Resumed: #{tls.session_reused?}\r\nConnection: close\r\n")) if link.head
    end
    assert_equal "false", call("https://localhost:#{to.port}/", trusting)["x-resumed"]
    assert_equal "true", call("https://localhost:#{to.port}/", trusting)["x-resumed"]
    # OpenSSL may find another version.
    assert_match(/\Aunsupported;/, error(call("https://localhost:#{to.port}/", %(#{trusting}, tls_min="1.3"))))
  end

  # --- proxies

  def test_a_proxy_is_asked_for_a_tunnel_or_for_the_page
    front
    authority = Authority.new
    hidden = secure(authority, "hidden.example", &serving_ok)
    lines = Queue.new
    proxy = origin do |link, _|
      head = link.head
      lines << [head.line, head["proxy-authorization"]]
      if head.line.start_with?("CONNECT")
        link.write("HTTP/1.1 200 Go\r\n\r\n")
        to = TCPSocket.new("127.0.0.1", hidden.port)
        Thread.new { IO.copy_stream(link.io, to) }
        IO.copy_stream(to, link.io)
      else
        link.write(OK)
      end
    end
    through = %(proxy="http://me:pw@127.0.0.1:#{proxy.port}")
    assert_equal "ok", call("https://hidden.example:444/", %(#{through}, ca_file="#{authority.file(@dir)}")).body
    assert_equal ["CONNECT hidden.example:444 HTTP/1.1", "Basic bWU6cHc="], take(lines)
    assert_equal "ok", call("http://plain.example/x?y", through).body
    assert_equal ["GET http://plain.example/x?y HTTP/1.1", "Basic bWU6cHc="], take(lines)
    refusing = origin { |link, _| link.head && link.write("HTTP/1.1 403 Not you\r\nContent-Length: 0\r\n\r\n") }
    assert_equal %(proxy;status=403;message="Not you"), error(call("https://x.example/", %(proxy="http://127.0.0.1:#{refusing.port}")))
  end
end
