# Which servers the front believes, beside what OpenSSL says of the same certificates: it accepts nothing that OpenSSL refuses, and refuses for good
# nothing that OpenSSL accepts.
require_relative "../support/egress_scenario"

class EgressVerificationTest < Minitest::Test
  include EgressScenario

  Pair = Struct.new(:certificate, :key)
  CA = [["basicConstraints", "CA:TRUE", true]].freeze
  NAMED = [["subjectAltName", "DNS:localhost", false]].freeze

  # A certificate by `by`, or one that has signed itself.
  def issue(name, by: nil, extensions: NAMED, key: OpenSSL::PKey::EC.generate("prime256v1"), from: Time.now - 3600, to: Time.now + 3600, version: 2, digest: "SHA256", issuer: nil)
    certificate = OpenSSL::X509::Certificate.new
    certificate.version, certificate.serial, certificate.public_key = version, @serial = @serial.to_i + 1, key
    certificate.subject = OpenSSL::X509::Name.new([["CN", name, OpenSSL::ASN1::UTF8STRING]])
    certificate.issuer = issuer || (by ? by.certificate.subject : certificate.subject)
    certificate.not_before, certificate.not_after = from, to
    factory = OpenSSL::X509::ExtensionFactory.new(by&.certificate || certificate, certificate)
    extensions.each { |extension| certificate.add_extension(extension.is_a?(Array) ? factory.create_extension(*extension) : extension) }
    Pair.new(certificate, certificate.sign(by&.key || key, digest) && key)
  end

  def authority(name = "Root", **more) = issue(name, extensions: CA, **more)

  # How the front and OpenSSL judge a server that shows these: :good, :refused, or of the front :undecided, which leaves it to OpenSSL.
  def verdicts(shown, trusted, path: nil, settings: "", verify_mode: OpenSSL::SSL::VERIFY_PEER, change: nil)
    own, *others = [shown].flatten
    set = lambda do |context|
      context.cert, context.key, context.extra_chain_cert = own.certificate, own.key, others.map(&:certificate)
      change&.call(context)
    end
    to = secure(Authority.new, "x", change: set, &serving_ok)
    file = File.join(@dir, "trusted#{to.port}.pem")
    File.write(file, trusted.map { |one| one.certificate.to_pem }.join) unless path
    [by_openssl(to.port, path ? { ca_path: path } : { ca_file: file }, verify_mode), by_front(to.port, "#{path ? %(ca_path="#{path}") : %(ca_file="#{file}")}#{settings}")]
  end

  def by_openssl(port, trust, verify_mode)
    context = OpenSSL::SSL::SSLContext.new
    context.set_params(verify_mode: verify_mode, **trust)
    tls = OpenSSL::SSL::SSLSocket.new(TCPSocket.new("127.0.0.1", port), context)
    tls.sync_close = true
    tls.hostname = "localhost"
    tls.connect
    tls.post_connection_check("localhost") if verify_mode != OpenSSL::SSL::VERIFY_NONE
    :good
  rescue OpenSSL::SSL::SSLError
    :refused
  ensure
    tls&.close
  end

  def by_front(port, members)
    answer = call("https://localhost:#{port}/", members)
    return :good if answer.body == "ok"

    { "tls" => :refused, "unsupported" => :undecided }.fetch(error(answer)[/\A\w+/])
  end

  def assert_judged(expected, *given, **more)
    assert_equal expected, verdicts(*given, **more), caller_locations(1, 1)[0].lineno.to_s
  end

  BOTH_REFUSE = %i[refused refused].freeze
  # OpenSSL would refuse it; the front is not sure enough of that, and asks it.
  ASKED_IN_VAIN = %i[refused undecided].freeze
  ASKED = %i[good undecided].freeze
  BOTH_ACCEPT = %i[good good].freeze

  def test_a_chain_ends_in_a_root
    front
    root = authority
    between = issue("Between", by: root, extensions: CA)
    server = issue("localhost", by: between)
    assert_judged BOTH_ACCEPT, [server, between], [root]
    assert_judged BOTH_REFUSE, server, [between]
    assert_judged BOTH_REFUSE, [server, between], [between]
    assert_judged BOTH_REFUSE, [server, between], [server]
    # It is a link that the server need not send.
    assert_judged BOTH_ACCEPT, server, [root, between]
    assert_judged BOTH_REFUSE, server, [root]
    own = issue("localhost", extensions: NAMED + [["basicConstraints", "CA:FALSE", true]])
    assert_judged BOTH_ACCEPT, own, [own]
    # The same name and key, but another certificate.
    assert_judged BOTH_REFUSE, issue("localhost", key: own.key), [own]
    assert_judged BOTH_REFUSE, server, [authority("Root")]
  end

  def test_a_root_has_its_time
    front
    late = authority(to: Time.now - 60)
    assert_judged BOTH_REFUSE, issue("localhost", by: late), [late]
    assert_judged BOTH_ACCEPT, issue("localhost", by: late), [late, authority("Root", key: late.key)]
    early = authority(from: Time.now + 600)
    assert_judged BOTH_REFUSE, issue("localhost", by: early), [early]
    good = authority
    expired = issue("Between", by: good, extensions: CA, to: Time.now - 60)
    server = issue("localhost", by: expired)
    assert_judged BOTH_REFUSE, [server, expired], [good]
    assert_judged BOTH_REFUSE, issue("localhost", by: good, to: Time.now - 60), [good]
    itself = issue("localhost", to: Time.now - 60)
    assert_judged BOTH_REFUSE, itself, [itself]
  end

  def test_who_may_issue
    front
    [
      [["basicConstraints", "CA:FALSE", true]],
      [],
      CA + [["keyUsage", "digitalSignature", true]],
      CA + [["extendedKeyUsage", "clientAuth", false]],
      CA + [OpenSSL::X509::Extension.new("1.2.3.4", "\x05\x00", true)]
    ].each do |extensions|
      unfit = issue("Root", extensions: extensions)
      openssl, front = verdicts(issue("localhost", by: unfit), [unfit])
      assert_equal :refused, openssl, extensions.inspect
      refute_equal :good, front, extensions.inspect
      good = authority("Good")
      between = issue("Between", by: good, extensions: extensions)
      openssl, front = verdicts([issue("localhost", by: between), between], [good])
      assert_equal :refused, openssl, extensions.inspect
      refute_equal :good, front, extensions.inspect
    end
    short = issue("Root", extensions: [["basicConstraints", "CA:TRUE,pathlen:0", true]])
    assert_judged BOTH_ACCEPT, issue("localhost", by: short), [short]
    between = issue("Between", by: short, extensions: CA)
    assert_judged ASKED_IN_VAIN, [issue("localhost", by: between), between], [short]
    gated = issue("Root", extensions: CA + [["extendedKeyUsage", "serverAuth", false], ["keyUsage", "keyCertSign", true]])
    assert_judged BOTH_ACCEPT, issue("localhost", by: gated), [gated]
  end

  def test_what_a_server_s_certificate_is_for
    front
    root = authority
    [["keyUsage", "nonRepudiation", true], ["extendedKeyUsage", "clientAuth", false], ["nsCertType", "client", false]].each do |use|
      openssl, front = verdicts(issue("localhost", by: root, extensions: NAMED + [use]), [root])
      assert_equal :refused, openssl, use.inspect
      refute_equal :good, front, use.inspect
    end
    assert_judged BOTH_ACCEPT, issue("localhost", by: root, extensions: NAMED + [["nsCertType", "server", false], ["keyUsage", "digitalSignature", true]]), [root]
    signing = issue("localhost", extensions: NAMED + CA + [["keyUsage", "keyCertSign", true]])
    assert_judged ASKED_IN_VAIN, signing, [signing]
    assert_judged ASKED, issue("localhost", by: root, extensions: NAMED + CA), [root]
    other = OpenSSL::X509::ExtensionFactory.new(authority("Other", key: OpenSSL::PKey::EC.generate("prime256v1")).certificate)
    keyed = issue("Keyed", extensions: CA + [["subjectKeyIdentifier", "hash", false]])
    stranger = issue("Keyed", extensions: CA + [["subjectKeyIdentifier", "hash", false]])
    other.issuer_certificate = stranger.certificate
    misled = issue("localhost", by: keyed, extensions: NAMED + [other.create_extension("authorityKeyIdentifier", "keyid:always")])
    assert_judged BOTH_REFUSE, misled, [keyed]
  end

  def test_names
    front
    root = authority
    assert_judged BOTH_ACCEPT, issue("localhost", by: root, extensions: []), [root]
    assert_judged BOTH_REFUSE, issue("elsewhere", by: root, extensions: []), [root]
    # Alternative names make the common one count for nothing.
    assert_judged BOTH_REFUSE, issue("localhost", by: root, extensions: [["subjectAltName", "DNS:elsewhere", false]]), [root]
    assert_judged BOTH_ACCEPT, issue("localhost", by: root, extensions: [["subjectAltName", "email:a@b.c", false]]), [root]
    limited = issue("Root", extensions: CA + [["nameConstraints", "permitted;DNS:example.com", true]])
    assert_judged ASKED, issue("localhost", by: limited, extensions: []), [limited]
    # OpenSSL compares names without regard to the kind of string.
    spelt = OpenSSL::X509::Name.new([["CN", "ROOT", OpenSSL::ASN1::PRINTABLESTRING]])
    assert_judged ASKED, issue("localhost", by: root, issuer: spelt), [root]
  end

  # A folder is looked through by the hash of the subject: what lies there under another name is not trusted.
  def test_a_folder_of_certificates
    front
    trusted, stray = authority("Trusted"), authority("Stray")
    folder = File.join(@dir, "authorities")
    Dir.mkdir(folder)
    File.write(File.join(folder, "trusted.pem"), trusted.certificate.to_pem)
    File.write(File.join(folder, "stray.pem"), stray.certificate.to_pem)
    File.symlink("trusted.pem", File.join(folder, format("%08x.0", trusted.certificate.subject.hash)))
    assert_judged BOTH_ACCEPT, issue("localhost", by: trusted), [], path: folder
    assert_judged BOTH_REFUSE, issue("localhost", by: stray), [], path: folder
  end

  # What rustls can't do OpenSSL may.
  def test_old_and_rare_certificates_are_left_to_openssl
    front
    root = authority
    assert_judged BOTH_ACCEPT, issue("localhost", by: issue("Old", extensions: [], version: 0).then { |old| @old = old }), [@old]
    assert_judged ASKED, issue("localhost", by: root, extensions: [], version: 0), [root]
    assert_judged ASKED, issue("localhost", by: root, key: OpenSSL::PKey::EC.generate("secp521r1")), [root]
    assert_judged ASKED, issue("localhost", by: root, digest: "SHA224"), [root]
    large = authority("Large", key: OpenSSL::PKey::EC.generate("secp521r1"))
    assert_judged ASKED, issue("localhost", by: large), [large]
    small = issue("localhost", by: root, key: OpenSSL::PKey::RSA.new(1024))
    # It is one that OpenSSL's servers show at a lower level only.
    weak = ->(context) { context.security_level = 0 }
    assert_judged ASKED_IN_VAIN, small, [root], change: weak
    # A weak key is no reason to trust somebody else.
    assert_judged ASKED_IN_VAIN, issue("localhost", by: authority("Root"), digest: "SHA224"), [root]
    [issue("localhost", version: 0, extensions: []), small, issue("localhost", key: OpenSSL::PKey::EC.generate("secp521r1"))].each do |shown|
      assert_judged ASKED, shown, [root], settings: ", verify=?0", verify_mode: OpenSSL::SSL::VERIFY_NONE, change: weak
    end
  end

  def test_old_ciphers_are_left_to_openssl
    front
    root = authority
    server = issue("localhost", by: root, key: OpenSSL::PKey::RSA.new(2048))
    %w[ECDHE-RSA-AES128-SHA AES128-GCM-SHA256 DHE-RSA-AES128-GCM-SHA256].each do |cipher|
      change = lambda do |context|
        context.max_version = :TLS1_2
        context.ciphers = cipher
      end
      assert_judged ASKED, server, [root], change: change
      assert_judged ASKED_IN_VAIN, server, [authority("Another")], change: change
    end
    silent = origin { |link, _| link.io.readpartial(1) }
    assert_equal :undecided, by_front(silent.port, "verify=?0")
    clear = origin { |link, _| link.write("HTTP/1.1 400 Bad Request\r\n\r\n") && link.io.read }
    assert_equal :refused, by_front(clear.port, "verify=?0")
  end
end
