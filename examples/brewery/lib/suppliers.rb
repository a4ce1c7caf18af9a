require "json"
require "fileutils"
require "openssl"
require "socket"
require "zlib"

# The suppliers of the breweries: an HTTPS server, as far away as a machine that answers after 30 ms. For a page that has to ask it 15 times. The first process
# of the application that asks starts it, on the same port each time if that is free; all others use it. It is gone with that process.
module Suppliers
  GOODS = ["Pale malt", "Munich malt", "Crystal malt", "Roast barley", "Flaked oats", "Saaz hops", "Fuggles hops", "Cascade hops", "Ale yeast",
    "Lager yeast", "Irish moss", "Coriander seed", "Orange peel", "Bottles", "Crown caps"].freeze
  DISTANCE = 0.03

  # Its URL, and the file of the certificate that it is trusted by. The server holds a lock on that file for as long as it lives.
  Place = Struct.new(:url, :ca_file) do
    def alive?
      File.open(ca_file) { |file| !file.flock(File::LOCK_SH | File::LOCK_NB) }
    rescue SystemCallError
      false
    end
  end

  @starting = Mutex.new

  # Where it is.
  def self.place
    @starting.synchronize do
      @place = running || start unless @place&.alive?
      @place
    end
  end

  # Another process has started it.
  def self.running
    place = Place.new(*JSON.parse(File.read(place_file)))
    place if place.alive?
  rescue SystemCallError, JSON::ParserError
    nil
  end

  def self.start
    ca_file = Rails.root.join("tmp/cache/suppliers-#{Process.pid}.pem").to_s
    FileUtils.mkdir_p(File.dirname(ca_file))
    told, tell = IO.pipe
    # It ends when nobody holds the other end of this.
    held, @hold = IO.pipe
    port = 20_000 + (Zlib.crc32(Rails.root.to_s) % 10_000)
    spawn(RbConfig.ruby, __FILE__, ca_file, port.to_s, in: held, out: tell)
    [tell, held].each(&:close)
    place = Place.new("https://localhost:#{told.gets.to_i}", ca_file)
    told.close
    File.write("#{place_file}.#{Process.pid}", JSON.generate(place.to_a))
    File.rename("#{place_file}.#{Process.pid}", place_file)
    place
  end

  def self.place_file
    Rails.root.join("tmp/cache/suppliers.json").to_s
  end
  private_class_method :running, :start, :place_file

  # The server.
  def self.serve(ca_file, port)
    Thread.new { $stdin.read && exit }
    key = OpenSSL::PKey::EC.generate("prime256v1")
    context = OpenSSL::SSL::SSLContext.new
    context.key, context.cert = key, certificate(key)
    file = File.open(ca_file, "w")
    file.write(context.cert.to_pem)
    file.flush
    file.flock(File::LOCK_EX)
    at_exit { File.delete(ca_file) }
    server = listen(port)
    $stdout.puts(server.addr[1])
    $stdout.flush
    loop do
      connection = server.accept
      Thread.new { answer(OpenSSL::SSL::SSLSocket.new(connection, context)) }
    end
  end

  def self.listen(port)
    TCPServer.new("127.0.0.1", port)
  rescue Errno::EADDRINUSE
    TCPServer.new("127.0.0.1", 0)
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

Suppliers.serve(ARGV.fetch(0), Integer(ARGV.fetch(1))) if $PROGRAM_NAME == __FILE__
