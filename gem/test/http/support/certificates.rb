# frozen_string_literal: true

require "openssl"
require "tmpdir"

# A certificate authority of our own, with a server and a client; made once for all tests.
module Certificates
  module_function

  Pair = Struct.new(:certificate, :key)

  def authority
    @authority ||= issue("/CN=Test Authority", ca: true)
  end

  # For localhost and 127.0.0.1.
  def server
    @server ||= issue("/CN=localhost", by: authority, names: "DNS:localhost,IP:127.0.0.1")
  end

  # For a name that nobody has.
  def elsewhere
    @elsewhere ||= issue("/CN=elsewhere.test", by: authority, names: "DNS:elsewhere.test")
  end

  def client
    @client ||= issue("/CN=client", by: authority)
  end

  # The authority's certificate in a file.
  def ca_file
    @ca_file ||= begin
      folder = Dir.mktmpdir
      Minitest.after_run { FileUtils.rm_rf(folder) }
      File.join(folder, "ca.pem").tap { |path| File.write(path, authority.certificate.to_pem) }
    end
  end

  def issue(name, by: nil, ca: false, names: nil)
    key = OpenSSL::PKey::EC.generate("prime256v1")
    certificate = OpenSSL::X509::Certificate.new
    certificate.version = 2
    certificate.serial = rand(1 << 60)
    certificate.subject = OpenSSL::X509::Name.parse(name)
    certificate.issuer = by ? by.certificate.subject : certificate.subject
    certificate.public_key = key
    certificate.not_before = Time.now - 3600
    certificate.not_after = Time.now + 86_400
    factory = OpenSSL::X509::ExtensionFactory.new(by&.certificate || certificate, certificate)
    certificate.add_extension(factory.create_extension("basicConstraints", ca ? "CA:TRUE" : "CA:FALSE", true))
    certificate.add_extension(factory.create_extension("subjectKeyIdentifier", "hash"))
    certificate.add_extension(factory.create_extension("keyUsage", "keyCertSign,cRLSign", true)) if ca
    certificate.add_extension(factory.create_extension("subjectAltName", names)) if names
    certificate.sign(by&.key || key, "SHA256")
    Pair.new(certificate, key)
  end
end
