# frozen_string_literal: true

# What the applications with faults call: an HTTPS server and an SMTP server on loopback that answer by a script, each after a delay of its own, so that a
# connection costs what one to another city costs. A process of its own (bench/lib/asked_process.rb); `ruby bench/doctor/upstream.rb FOLDER` writes its
# authority's certificate to FOLDER/authority.pem. Never verifies or keeps anything.
require "json"
require "openssl"
require "socket"

module Bench
  class DoctorUpstream
    # Seconds before a TLS handshake begins, before an answer below /slow/, and before each reply of the SMTP server.
    HANDSHAKE = 0.020
    SLOW = 0.030
    REPLY = 0.006

    def initialize(folder)
      @context = OpenSSL::SSL::SSLContext.new
      authority_key, @key = Array.new(2) { OpenSSL::PKey::EC.generate("prime256v1") }
      authority = certificate("Bench Authority", authority_key, nil, authority_key, "basicConstraints" => "CA:TRUE", "keyUsage" => "keyCertSign")
      @context.cert = certificate("localhost", @key, authority, authority_key, "subjectAltName" => "DNS:localhost,IP:127.0.0.1", "extendedKeyUsage" => "serverAuth")
      @context.key = @key
      File.write(File.join(folder, "authority.pem"), authority.to_pem)
      @web, @mail = Array.new(2) { TCPServer.new("127.0.0.1", 0) }
    end

    # Answers {"web":PORT,"mail":PORT} to each line that it is asked; ends with its input.
    def run
      accept(@web) { |socket| speak_http(socket) }
      accept(@mail) { |socket| speak_smtp(socket) }
      ports = JSON.generate("web" => @web.addr[1], "mail" => @mail.addr[1])
      $stdout.sync = true
      puts ports
      puts ports while $stdin.gets
    end

    private

    def accept(server)
      Thread.new do
        loop do
          Thread.new(server.accept) do |socket|
            socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
            yield socket
          rescue SystemCallError, IOError, OpenSSL::SSL::SSLError
            nil # the other end has left
          ensure
            socket.close
          end
        end
      end
    end

    def speak_http(socket)
      sleep HANDSHAKE
      tls = OpenSSL::SSL::SSLSocket.new(socket, @context)
      tls.accept
      while (line = tls.gets)
        path = line.split[1].to_s
        nil until tls.gets.to_s.strip.empty?
        sleep SLOW if path.start_with?("/slow/")
        body = JSON.generate("book" => path[/\d+\z/].to_i, "cents" => (path[/\d+\z/].to_i * 137) + 400)
        tls.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: #{body.bytesize}\r\n\r\n#{body}")
      end
    end

    def speak_smtp(socket)
      reply(socket, "220 localhost")
      while (line = socket.gets)
        case line
        when /\AEHLO/i then reply(socket, "250 localhost")
        when /\ADATA/i
          reply(socket, "354 go on")
          nil until socket.gets.to_s.chomp == "."
          reply(socket, "250 taken")
        when /\AQUIT/i then return reply(socket, "221 bye")
        else reply(socket, "250 fine")
        end
      end
    end

    def reply(socket, text)
      sleep REPLY
      socket.write("#{text}\r\n")
    end

    def certificate(name, key, issuer, issuer_key, extensions)
      made = OpenSSL::X509::Certificate.new
      made.version, made.serial, made.public_key = 2, Random.rand(1 << 62), key
      made.subject = OpenSSL::X509::Name.new([["CN", name]])
      made.issuer = issuer ? issuer.subject : made.subject
      made.not_before, made.not_after = Time.now - 3600, Time.now + 86_400
      factory = OpenSSL::X509::ExtensionFactory.new(issuer || made, made)
      extensions.each { |kind, value| made.add_extension(factory.create_extension(kind, value, kind == "basicConstraints")) }
      made.sign(issuer_key, "SHA256")
    end
  end
end

Bench::DoctorUpstream.new(ARGV.fetch(0)).run if $PROGRAM_NAME == __FILE__
