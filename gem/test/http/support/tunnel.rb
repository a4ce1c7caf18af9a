# frozen_string_literal: true

require "socket"

# A proxy for CONNECT, which may want a user and a password ("me:secret"). It counts its tunnels and keeps what it was told.
class Tunnel
  attr_reader :port, :asked

  def initialize(credentials: nil)
    @credentials = credentials
    @server = TCPServer.new("127.0.0.1", 0)
    @port = @server.addr[1]
    @asked = []
    @thread = Thread.new { accept }
  end

  def stop
    @server.close
    @thread.join
  end

  private

  def accept
    loop do
      client = @server.accept
      Thread.new { serve(client) }
    end
  rescue IOError, SystemCallError
    nil
  end

  def serve(client)
    head = +""
    head << client.gets until head.end_with?("\r\n\r\n")
    @asked << head
    if @credentials && !head.include?("Proxy-Authorization: Basic #{[@credentials].pack("m0")}\r\n")
      client.write("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
      return client.close
    end
    upstream = TCPSocket.new(*head[/\ACONNECT (\S+)/, 1].split(":"))
    client.write("HTTP/1.1 200 Connection established\r\n\r\n")
    back = Thread.new { IO.copy_stream(upstream, client) && client.close_write }
    IO.copy_stream(client, upstream)
    upstream.close_write
    back.join
  rescue IOError, SystemCallError
    nil
  ensure
    client.close
    upstream&.close
  end
end
