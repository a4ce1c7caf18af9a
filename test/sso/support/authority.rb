# A certificate authority of the test's own, and a server's certificate by it.
require "openssl"

module Authority
  module_function

  # Writes ca.pem, cert.pem and key.pem into the folder.
  def issue(dir, *names)
    key, ca_key = Array.new(2) { OpenSSL::PKey::EC.generate("prime256v1") }
    ca = certificate("/CN=Test authority", ca_key, ["basicConstraints", "CA:TRUE", true], ["keyUsage", "keyCertSign,cRLSign", true])
    ca.issuer = ca.subject
    ca.sign(ca_key, "SHA256")
    server = certificate("/CN=#{names.first}", key, ["subjectAltName", names.map { |name| "#{name =~ /\A[\d.]+\z/ ? "IP" : "DNS"}:#{name}" }.join(",")])
    server.issuer = ca.subject
    server.sign(ca_key, "SHA256")
    { "ca.pem" => ca.to_pem, "cert.pem" => server.to_pem, "key.pem" => key.to_pem }.each { |name, text| File.write(File.join(dir, name), text, perm: 0o600) }
  end

  def certificate(subject, key, *extensions)
    OpenSSL::X509::Certificate.new.tap do |certificate|
      certificate.version = 2
      certificate.serial = rand(1..2**60)
      certificate.subject = OpenSSL::X509::Name.parse(subject)
      certificate.public_key = key
      certificate.not_before = Time.now - 3600
      certificate.not_after = Time.now + 86_400
      factory = OpenSSL::X509::ExtensionFactory.new
      extensions.each { |extension| certificate.add_extension(factory.create_extension(*extension)) }
    end
  end
end
