require "openssl"
require "socket"

# The suppliers of the breweries: an HTTPS server of its own process, as far away as a machine that answers after 30 ms. For a page that has to ask
# it 15 times. Started when it is first asked, and gone with this process.
module Suppliers
  GOODS = ["Pale malt", "Munich malt", "Crystal malt", "Roast barley", "Flaked oats", "Saaz hops", "Fuggles hops", "Cascade hops", "Ale yeast",
    "Lager yeast", "Irish moss", "Coriander seed", "Orange peel", "Bottles", "Crown caps"].freeze
  DISTANCE = 0.03

  # Its URL, and the file of the certificate that it is trusted by.
  Place = Struct.new(:url, :ca_file)

  @starting = Mutex.new

  # Where it is.
  def self.place
    @starting.synchronize do
      @place = nil unless @pid == Process.pid
      @pid = Process.pid
      @place ||= start
    end
  end

  def self.start
    ca_file = Rails.root.join("tmp/suppliers-#{Process.pid}.pem").to_s
    told, tell = IO.pipe
    # It ends when nobody holds the other end of this.
    held, @hold = IO.pipe
    spawn(RbConfig.ruby, __FILE__, ca_file, in: held, out: tell)
    [tell, held].each(&:close)
    Place.new("https://localhost:#{told.gets.to_i}", ca_file).tap { told.close }
  end
  private_class_method :start

  # The server.
  def self.serve(ca_file)
    Thread.new { $stdin.read && exit }
    key = OpenSSL::PKey::EC.generate("prime256v1")
    context = OpenSSL::SSL::SSLContext.new
    context.key, context.cert = key, certificate(key)
    File.write(ca_file, context.cert.to_pem)
    at_exit { File.delete(ca_file) }
    server = TCPServer.new("127.0.0.1", 0)
    $stdout.puts(server.addr[1])
    $stdout.flush
    loop do
      connection = server.accept
      Thread.new { answer(OpenSSL::SSL::SSLSocket.new(connection, context)) }
    end
  end

  def self.answer(connection)
    # TCP's handshake, and TLS's.
    sleep DISTANCE * 2
    connection.accept
    while (line = connection.gets)
      nil until connection.gets.to_s.strip.empty?
      sleep DISTANCE
      price = "#{line[/\d+/].to_i * 7 % 40 + 2}.50"
      connection.write("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: #{price.bytesize}\r\n\r\n#{price}")
    end
  rescue SystemCallError, OpenSSL::SSL::SSLError
    nil
  ensure
    connection.close
  end

  def self.certificate(key)
    certificate = OpenSSL::X509::Certificate.new
    certificate.version, certificate.serial, certificate.public_key = 2, 1, key
    certificate.subject = certificate.issuer = OpenSSL::X509::Name.new([["CN", "localhost"]])
    certificate.not_before, certificate.not_after = Time.now - 60, Time.now + 86_400
    certificate.add_extension(OpenSSL::X509::ExtensionFactory.new.create_extension("subjectAltName", "DNS:localhost"))
    certificate.sign(key, "SHA256")
  end
end

Suppliers.serve(ARGV.fetch(0)) if $PROGRAM_NAME == __FILE__
