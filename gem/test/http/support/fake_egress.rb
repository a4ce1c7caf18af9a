# frozen_string_literal: true

require "fileutils"
require "net/http"
require "openssl"
require "socket"
require "tmpdir"

# The front's end of docs/egress-protocol.md, in Ruby: it makes each call by itself, on a connection of its own that it does not keep, with plain sockets. What it was told is
# kept; `answers` may be scripted: heads to answer with in place of a call, the first first.
class FakeEgress
  # By the proxy.
  class Refused < StandardError; end
  HOP = %w[connection keep-alive proxy-connection te trailer transfer-encoding upgrade].freeze
  KNOWN = %w[open_timeout deadline verify verify_host ca_file ca_path ca system cert key sni address proxy http tls_min tls_max exchange cache own guard].freeze

  # [request line, fields, {member => value}] of each call.
  attr_reader :calls, :path
  # What is said instead of making the call.
  attr_accessor :answers

  def initialize
    @folder = Dir.mktmpdir
    @path = File.join(@folder, "egress.sock")
    @calls = []
    @answers = []
    @accepted = 0
    @sockets = []
    start
  end

  def start
    File.delete(@path) if File.exist?(@path)
    @server = UNIXServer.new(@path)
    File.chmod(0o600, @path)
    @thread = Thread.new { accept(@server) }
  end

  # As when the server is stopped: nobody listens, and what was open is closed.
  def stop
    @server.close
    @thread.join
    @sockets.each { |socket| socket.close unless socket.closed? }
    @sockets.clear
  end

  def remove
    stop
    FileUtils.rm_rf(@folder)
  end

  def connections
    @accepted
  end

  private

  def accept(server)
    loop do
      socket = server.accept
      @accepted += 1
      @sockets << socket
      Thread.new { serve(socket) }
    end
  rescue IOError, SystemCallError
    nil
  end

  def serve(socket)
    while (line = socket.gets("\r\n", chomp: true))
      fields = []
      while (field = socket.gets("\r\n", chomp: true)) && !field.empty?
        fields << field.split(": ", 2)
      end
      body = body(socket, fields)
      members = members(fields.find { |name, _| name == "Paceline-Egress" }&.last)
      @calls << [line, fields, members]
      if (scripted = @answers.shift)
        break if scripted == :close

        socket.write(scripted)
      elsif !(unknown = members.keys - KNOWN).empty?
        fail_with(socket, 502, %(unsupported; message="#{unknown[0]}"))
      elsif members["own"]
        fail_with(socket, 502, "unsupported")
      else
        break if call(socket, line, fields, body, members) == :close
      end
    end
  rescue SystemCallError, IOError
    nil
  ensure
    socket.close unless socket.closed?
  end

  def body(socket, fields)
    if fields.any? { |name, value| name.casecmp?("transfer-encoding") && value == "chunked" }
      body = +"".b
      while (size = socket.gets.hex).positive?
        body << socket.read(size)
        socket.gets
      end
      socket.gets
      [:chunked, body]
    elsif (length = fields.find { |name, _| name.casecmp?("content-length") })
      [:length, socket.read(length[1].to_i)]
    end
  end

  # RFC 9651, as far as the protocol uses it.
  def members(field)
    field.to_s.scan(/([a-z_]+)(?:=("(?:[^"\\]|\\.)*"|:[^:]*:|[^,]*))?(?:, |\z)/).to_h do |name, value|
      value = case value
              when nil, "?1" then true
              when "?0" then false
              when /\A"/ then value[1..-2].gsub(/\\(.)/, '\1')
              when /\A:/ then value[1..-2].unpack1("m0")
              else Float(value)
              end
      [name, value]
    end
  end

  def call(socket, line, fields, body, members)
    method, target, = line.split
    uri = URI(target)
    began = now
    upstream = connect(uri, members)
    io = Net::BufferedIO.new(upstream, read_timeout: nil)
    io.write(request(method, uri, fields, body, members))
    response = nil
    loop do
      response = Net::HTTPResponse.read_new(io)
      break unless response.is_a?(Net::HTTPInformation)
    end
    relay(socket, io, method, response, now - began, upstream)
  rescue Refused => e
    fail_with(socket, 502, e.message)
  rescue SocketError => e
    fail_with(socket, 502, %(resolve; message="#{e.message[/getaddrinfo(?:\(3\))?: (.*)\z/m, 1] || e.message}"))
  rescue Errno::ECONNREFUSED => e
    reached = URI(members["proxy"] || target)
    fail_with(socket, 502, %(connect; errno=#{e.errno}; address="#{reached.hostname}:#{reached.port}"; message="Connection refused"))
  rescue Errno::ETIMEDOUT, Net::OpenTimeout
    fail_with(socket, 504, "open_timeout")
  rescue OpenSSL::SSL::SSLError => e
    fail_with(socket, 502, %(tls; message="#{e.message.delete('"\\')}"))
  rescue EOFError
    fail_with(socket, 502, "closed; sent=?1")
  rescue Errno::ECONNRESET => e
    fail_with(socket, 502, "reset; errno=#{e.errno}; sent=?1")
  rescue Net::HTTPBadResponse => e
    fail_with(socket, 502, %(protocol; message="#{e.message.gsub(/["\\]/) { |char| "\\#{char}" }}"))
  ensure
    upstream&.close
  end

  def connect(uri, members)
    proxy = members["proxy"] && URI(members["proxy"])
    host, port = proxy ? [proxy.hostname, proxy.port] : [members["address"] || uri.hostname, uri.port]
    socket = Socket.tcp(host, port, connect_timeout: members["open_timeout"] || 60)
    socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
    return socket unless uri.scheme == "https"

    if proxy
      authorization = "Proxy-Authorization: Basic #{[URI.decode_www_form_component("#{proxy.user}:#{proxy.password}")].pack("m0")}\r\n" if proxy.user
      socket.write("CONNECT #{uri.hostname}:#{uri.port} HTTP/1.1\r\nHost: #{uri.hostname}:#{uri.port}\r\n#{authorization}\r\n")
      status = socket.gets.split(" ", 3)
      nil until socket.gets == "\r\n"
      raise Refused, %(proxy; status=#{status[1]}; message="#{status[2].chomp}") unless status[1] == "200"
    end
    secure(socket, uri, members)
  end

  def secure(socket, uri, members)
    context = OpenSSL::SSL::SSLContext.new
    wanted = { verify_mode: members["verify"] == false ? OpenSSL::SSL::VERIFY_NONE : OpenSSL::SSL::VERIFY_PEER }
    wanted[:ca_file] = members["ca_file"] if members["ca_file"]
    if members["ca"]
      store = OpenSSL::X509::Store.new
      store.set_default_paths if members["system"]
      store.add_cert(OpenSSL::X509::Certificate.new(members["ca"]))
      wanted[:cert_store] = store
    end
    wanted[:cert] = OpenSSL::X509::Certificate.new(members["cert"]) if members["cert"]
    wanted[:key] = OpenSSL::PKey.read(members["key"]) if members["key"]
    context.set_params(wanted)
    context.verify_hostname = false
    secured = OpenSSL::SSL::SSLSocket.new(socket, context)
    secured.sync_close = true
    secured.hostname = uri.hostname
    secured.connect
    secured.post_connection_check(uri.hostname) unless members["verify"] == false || members["verify_host"] == false
    secured
  end

  def request(method, uri, fields, body, members)
    target = members["proxy"] && uri.scheme == "http" ? uri.to_s : uri.request_uri
    kept = fields.reject { |name, _| HOP.include?(name.downcase) || name == "Paceline-Egress" }
    kept << ["Transfer-Encoding", "chunked"] if body && body[0] == :chunked
    sent = body && (body[0] == :chunked ? "#{body[1].bytesize.to_s(16)}\r\n#{body[1]}\r\n0\r\n\r\n" : body[1])
    "#{method} #{target} HTTP/1.1\r\n#{kept.map { |pair| "#{pair.join(": ")}\r\n" }.join}\r\n".b << sent.to_s.b
  end

  def relay(socket, io, method, response, took, upstream)
    length = response["content-length"]
    chunked = method != "HEAD" && response.class.body_permitted? && (length.nil? || response.chunked?)
    head = +"HTTP/1.1 #{response.code}#{" #{response.message}" if response.message}\r\n".b
    response.each_capitalized_name { |name| response.get_fields(name).each { |value| head << "#{name}: #{value}\r\n" unless HOP.include?(name.downcase) } }
    head << "Transfer-Encoding: chunked\r\n" if chunked
    address = upstream.to_io.remote_address
    head << %(Paceline-Egress: version="1.1", new, waited=0.0, dns=0.1, connect=0.2, tls=0.3, first=#{(took * 1000).round(1)}, address="#{address.ip_address}:#{address.ip_port}"\r\n\r\n)
    socket.write(head)
    sent = 0
    response.reading_body(io, method != "HEAD") do
      response.read_body do |piece|
        next if piece.empty?

        sent += piece.bytesize
        chunked ? socket.write("#{piece.bytesize.to_s(16)}\r\n", piece, "\r\n") : socket.write(piece)
      end
    end
    socket.write("0\r\n\r\n") if chunked
    :close if length && !chunked && method != "HEAD" && response.class.body_permitted? && sent < length.to_i
  rescue EOFError, SystemCallError, Net::HTTPBadResponse, Net::HTTPHeaderSyntaxError
    :close
  end

  def fail_with(socket, status, error)
    socket.write("HTTP/1.1 #{status} Failed\r\nContent-Length: 0\r\nPaceline-Egress-Error: #{error}\r\n\r\n")
    nil
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
