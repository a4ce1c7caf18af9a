# frozen_string_literal: true

require "openssl"
require "socket"
require "stringio"
require "zlib"
require_relative "certificates"

# An HTTP server that does what servers do, right or wrong, by the path that is asked for. It counts its connections and keeps what it was sent.
class HostileServer
  Asked = Struct.new(:line, :fields, :body) do
    def method = line.split[0]
    def target = line.split[1]
    def [](name) = fields.find { |field, _| field.casecmp?(name) }&.last
  end

  GZIPPED = Zlib.gzip("packed " * 50, level: 9).tap { |bytes| bytes.setbyte(9, 3) }
  BIG = (0..60_000).to_a.join(",").freeze

  attr_reader :port, :requests, :resumed

  # `limit`: how many requests of a connection are answered before it is closed, which nobody is told; `tls`: :yes, :elsewhere (a certificate of another name), :client (asks for a certificate).
  def initialize(tls: nil, host: "127.0.0.1", limit: nil)
    @limit = limit
    @server = TCPServer.new(host, 0)
    @port = @server.addr[1]
    @context = context(tls) if tls
    @mutex = Mutex.new
    @accepted = @resumed = 0
    @requests = []
    @sockets = []
    @stalled = Queue.new
    @thread = Thread.new { accept }
  end

  def url(path = "/")
    "#{@context ? "https" : "http"}://#{@context ? "localhost" : "127.0.0.1"}:#{@port}#{path}"
  end

  def connections
    @mutex.synchronize { @accepted }
  end

  # What was asked since the last time.
  def asked
    @mutex.synchronize { @requests.dup.tap { @requests.clear } }
  end

  # Closes every connection there is, from this side; returns when they are closed.
  def hang_up
    @mutex.synchronize { @sockets.dup.tap { @sockets.clear } }.each do |socket|
      socket.close
    rescue IOError, SystemCallError
      nil
    end
  end

  # Nobody is accepted from here on; those that are connected stay.
  def refuse
    @server.close
    @thread.join
  end

  # Lets a response go on that waits.
  def go_on
    @stalled << true
  end

  def stop
    @server.close
    hang_up
    @thread.join
  rescue IOError
    nil
  end

  private

  def context(kind)
    context = OpenSSL::SSL::SSLContext.new
    pair = kind == :elsewhere ? Certificates.elsewhere : Certificates.server
    context.cert, context.key = pair.certificate, pair.key
    context.session_id_context = "test"
    if kind == :client
      context.verify_mode = OpenSSL::SSL::VERIFY_PEER | OpenSSL::SSL::VERIFY_FAIL_IF_NO_PEER_CERT
      context.cert_store = OpenSSL::X509::Store.new.tap { |store| store.add_cert(Certificates.authority.certificate) }
    end
    context
  end

  def accept
    loop do
      socket = @server.accept
      socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
      @mutex.synchronize do
        @accepted += 1
        @sockets << socket
      end
      Thread.new { serve(socket) }
    end
  rescue IOError, SystemCallError
    nil
  end

  def serve(plain)
    socket = plain
    if @context
      socket = OpenSSL::SSL::SSLSocket.new(plain, @context)
      socket.sync_close = true
      socket.accept
      @mutex.synchronize { @resumed += 1 if socket.session_reused? }
    end
    answered = 0
    while (asked = read(socket))
      @mutex.synchronize { @requests << asked }
      answered += 1
      break if answer(socket, asked, plain) == :close || answered == @limit || asked["Connection"] == "close"
    end
  rescue SystemCallError, IOError, OpenSSL::SSL::SSLError
    nil
  ensure
    socket.close unless socket.closed?
  end

  def read(socket)
    line = socket.gets("\r\n")&.chomp("\r\n") or return
    fields = []
    while (field = socket.gets("\r\n")&.chomp("\r\n")) && !field.empty?
      fields << field.split(": ", 2)
    end
    asked = Asked.new(line, fields, +"")
    socket.write("HTTP/1.1 100 Continue\r\n\r\n") if asked["Expect"] && !asked.target.start_with?("/refuse")
    if asked["Expect"] && asked.target.start_with?("/refuse")
      asked.body = nil
    elsif asked["Transfer-Encoding"] == "chunked"
      while (size = socket.gets.hex).positive?
        asked.body << socket.read(size)
        socket.gets
      end
      socket.gets
    elsif asked["Content-Length"]
      asked.body = socket.read(asked["Content-Length"].to_i)
    end
    asked
  end

  def answer(socket, asked, plain)
    path = asked.target[%r{\A/([\w-]*)}, 1].to_s.tr("-", "_")
    case path
    when "reset"
      plain.setsockopt(Socket::SOL_SOCKET, Socket::SO_LINGER, [1, 0].pack("ii"))
      :close
    when "empty" then :close
    when "stall" then @stalled.pop
    when "stall_body"
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
      @stalled.pop
    when "half_chunk" # the other half when `go_on` is called
      socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhello")
      @stalled.pop
      socket.write("world\r\n0\r\n\r\n")
    when "race" # answers, and is gone when the next request comes
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nrace")
      :close
    when "race_later" # reads the next request before it is gone
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nrace")
      again = read(socket) or return :close
      @mutex.synchronize { @requests << again }
      :close
    when "slow_head"
      "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Slow: yes\r\n\r\nslow".each_char.each_slice(7) { |piece| socket.write(piece.join) }
    when "gone_in_head"
      socket.write("HTTP/1.1 200 OK\r\nX-One: 1\r\n")
      :close
    when "refuse" then socket.write("HTTP/1.1 417 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n") && :close
    else
      reply = respond_to?("on_#{path}", true) ? send("on_#{path}", asked) : with("404 Not Found", "none")
      last = reply.delete_suffix!("\0CLOSE")
      reply = reply[0, reply.index("\r\n\r\n") + 4] if asked.method == "HEAD" && reply.include?("\r\n\r\n")
      socket.write(reply)
      last ? :close : nil
    end
  end

  def with(status, body, *fields)
    ["HTTP/1.1 #{status}\r\n", *fields.map { |field| "#{field}\r\n" }, "Content-Length: #{body.bytesize}\r\n\r\n", body].map(&:b).join
  end

  def closing(text) = "#{text}\0CLOSE".b

  def on_(_) = with("200 OK", "root", "Content-Type: text/plain")
  def on_plain(_) = with("200 OK", "plain", "Content-Type: text/plain; charset=utf-8", "X-Mixed-Case: Value ")
  def on_utf8(_) = with("200 OK", "Kölsch", "Content-Type: text/plain; charset=utf-8")
  def on_html(_) = with("200 OK", "<html><meta charset=\"iso-8859-1\">ü</html>".encode("iso-8859-1").b, "Content-Type: text/html")
  def on_binary(_) = with("200 OK", (0..255).map(&:chr).join.b)
  def on_nothing(_) = with("200 OK", "")
  def on_big(_) = with("200 OK", BIG)
  def on_echo(asked) = with("200 OK", [asked.line, *asked.fields.map { |field| field.join(": ") }.sort.grep_v(/\AConnection/), "", asked.body].join("\n"))
  def on_chunked(_) = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-After\r\n\r\n4\r\nchun\r\n3;note=1\r\nked\r\n0\r\nX-After: yes\r\n\r\n".b
  def on_chunked_big(_) = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n#{BIG.scan(/.{1,5000}/m).map { |piece| "#{piece.bytesize.to_s(16)}\r\n#{piece}\r\n" }.join}0\r\n\r\n".b
  def on_chunk_broken(_) = closing("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nchu")
  def on_chunk_bad(_) = closing("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nchunk")
  def on_until_close(_) = closing("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end")
  def on_short(_) = closing("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
  def on_long(_) = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlong, and more than was said".b
  def on_bad_status(_) = closing("HTTX 200 OK\r\n\r\n")
  def on_bad_header(_) = closing("HTTP/1.1 200 OK\r\nno colon\r\n\r\n")
  def on_bad_length(_) = closing("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nbody")
  def on_two_lengths(_) = closing("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nbody")
  def on_informational(_) = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n".b << with("200 OK", "final")
  def on_no_content(_) = "HTTP/1.1 204 No Content\r\nX-Is: 1\r\n\r\n".b
  def on_not_modified(_) = "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nContent-Length: 100\r\n\r\n".b
  def on_reset_content(_) = "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n".b
  def on_gzip(_) = with("200 OK", GZIPPED, "Content-Encoding: gzip", "Content-Type: text/plain")
  def on_deflate(_) = with("200 OK", Zlib.deflate("deflated " * 20), "Content-Encoding: deflate")
  def on_gzip_broken(_) = with("200 OK", "no gzip at all", "Content-Encoding: gzip")
  def on_gzip_cut(_) = with("200 OK", GZIPPED[0, 20], "Content-Encoding: gzip")
  def on_gzip_chunked(_) = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n#{GZIPPED.bytesize.to_s(16)}\r\n".b << GZIPPED << "\r\n0\r\n\r\n"
  def on_identity(_) = with("200 OK", "identity", "Content-Encoding: identity")
  def on_brotli(_) = with("200 OK", "unknown", "Content-Encoding: br")
  def on_redirect(_) = with("302 Found", "elsewhere", "Location: #{url("/plain")}")
  def on_http10(_) = closing("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nold")
  def on_http10_kept(_) = with("200 OK", "old", "Connection: keep-alive").sub("HTTP/1.1", "HTTP/1.0")
  def on_lf(_) = "HTTP/1.1 200 OK\nContent-Length: 2\nX-Lf: yes\n\nlf".b
  def on_folded(_) = with("200 OK", "folded", "X-Folded: one\r\n  two\r\n\tthree")
  def on_spaces(_) = with("200 OK", "spaces", "X-Spaces:\t  a b \t", "X-Empty:", "X-Colon: a:b: c")
  def on_cookies(_) = with("200 OK", "cookies", "Set-Cookie: a=1", "Set-Cookie: b=2", "set-cookie: c=3")
  def on_latin1(_) = with("200 OK", "latin", "X-Name: M\xFCller")
  def on_close(_) = closing(with("200 OK", "close", "Connection: close"))
  def on_hint(_) = with("200 OK", "hint", "Keep-Alive: timeout=1, max=5")
  def on_part(_) = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-3/10\r\n\r\npart".b
  def on_no_reason(_) = "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok".b
  def on_empty_reason(_) = "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok".b
  def on_teapot(_) = with("418 I'm  a teapot ", "tea")
  def on_unknown(_) = with("799 What", "what")
  def on_error(_) = with("503 Service Unavailable", "later", "Retry-After: 3")
  def on_unauthorized(_) = with("401 Unauthorized", "who?", "WWW-Authenticate: Basic realm=\"x\"")
end
