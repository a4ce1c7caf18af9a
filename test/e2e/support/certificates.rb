# Certificates made for a test: an authority of its own, and what it signs. Nothing outside the test trusts them.
require "openssl"

class Authority
  attr_reader :certificate

  def initialize
    @key = OpenSSL::PKey::EC.generate("prime256v1")
    @serial = 1
    @certificate = build("Paceline test authority", @key, ["basicConstraints", "CA:TRUE", true])
    @certificate.issuer = @certificate.subject
    @certificate.sign(@key, "SHA256")
  end

  # A certificate and its key, PEM, for the names.
  def issue(*names, key: OpenSSL::PKey::EC.generate("prime256v1"))
    addresses, hosts = names.partition { |name| name.match?(/\A[\d.]+\z/) }
    alternatives = hosts.map { |name| "DNS:#{name}" } + addresses.map { |name| "IP:#{name}" }
    certificate = build(names.first, key, ["subjectAltName", alternatives.join(","), false])
    certificate.issuer = @certificate.subject
    certificate.sign(@key, "SHA256")
    [certificate.to_pem, key.private_to_pem]
  end

  # Writes a pair as NAME.pem and NAME.key (mode 0600); returns both paths.
  def write(dir, name, *hosts)
    paths = [File.join(dir, "#{name}.pem"), File.join(dir, "#{name}.key")]
    paths.zip(issue(*hosts)) do |path, text|
      File.write("#{path}.new", text)
      File.chmod(0o600, "#{path}.new")
      File.rename("#{path}.new", path)
    end
    paths
  end

  def file(dir)
    path = File.join(dir, "authority.pem")
    File.write(path, @certificate.to_pem)
    path
  end

  # A client's TLS connection to 127.0.0.1:PORT that trusts this authority only.
  def connect(port, host, alpn: nil, **versions)
    context = OpenSSL::SSL::SSLContext.new
    context.cert_store = OpenSSL::X509::Store.new.tap { |store| store.add_cert(@certificate) }
    context.verify_mode = OpenSSL::SSL::VERIFY_PEER
    context.verify_hostname = false
    context.alpn_protocols = alpn if alpn
    versions.each { |name, value| context.public_send(:"#{name}=", value) }
    socket = OpenSSL::SSL::SSLSocket.new(TCPSocket.new("127.0.0.1", port), context)
    socket.hostname = host if host
    socket.sync_close = true
    socket.connect
    return socket unless block_given?
    begin
      yield socket
    ensure
      socket.close
    end
  end

  # The names of the certificate that is shown to whoever asks for `host`.
  def shown(port, host)
    connect(port, host) do |socket|
      socket.peer_cert.extensions.find { |one| one.oid == "subjectAltName" }.value.scan(/DNS:([^,]+)/).flatten
    end
  end

  private

  def build(name, key, extension)
    certificate = OpenSSL::X509::Certificate.new
    certificate.version = 2
    certificate.serial = @serial += 1
    certificate.subject = OpenSSL::X509::Name.new([["CN", name]])
    certificate.public_key = key
    certificate.not_before = Time.now - 60
    certificate.not_after = Time.now + 3600
    certificate.add_extension(OpenSSL::X509::ExtensionFactory.new.create_extension(*extension))
    certificate
  end
end
