# A server behind the one that is tested, whose every byte is scripted. It asserts nothing itself.
require "socket"
require "timeout"

class Origin
  # A message as it came: its line, its fields (names in lower case) in their order, and the bytes of its head.
  Message = Struct.new(:line, :fields, :bytes) do
    def all(name) = fields.select { |field, _| field == name }.map(&:last)
    def [](name) = all(name).first
    def names = fields.map(&:first)
  end

  attr_reader :port, :connections

  # The script gets each connection (a Link) and its number from 1, in a thread of its own.
  def initialize(socket = TCPServer.new("127.0.0.1", 0), &script)
    @socket, @script = socket, script
    @port = socket.addr[1] if socket.is_a?(TCPServer)
    @connections = 0
    @threads = []
    @failures = Queue.new
    @accepting = Thread.new { loop { accept } }
    @accepting.report_on_exception = false
  end

  def url = "http://127.0.0.1:#{port}"

  def close
    @accepting.kill
    @socket.close
    @threads.each(&:kill)
  end

  private

  def accept
    io = @socket.accept
    # As servers have it. Without it, an answer behind TLS' session tickets waits until the client has acknowledged them: 40 ms.
    io.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) if io.is_a?(TCPSocket)
    link = Link.new(io)
    number = @connections += 1
    @threads << Thread.new do
      @script.call(link, number)
    rescue IOError, SystemCallError
      nil
    ensure
      link.io.close
    end
  end

  # One connection.
  class Link
    attr_reader :io

    def initialize(io)
      @io = io
    end

    # The next request's head; nil when the other side has closed.
    def head
      bytes = +"".b
      until bytes.end_with?("\r\n\r\n")
        line = @io.gets("\r\n") or return nil
        bytes << line
      end
      line, *fields = bytes.delete_suffix("\r\n\r\n").split("\r\n")
      Message.new(line, fields.map { |field| field.split(": ", 2).then { |name, value| [name.downcase, value] } }, bytes)
    end

    # The body of a request with this head, decoded.
    def body(head)
      return @io.read(Integer(head["content-length"])) if head["content-length"]
      body = +"".b
      return body unless head["transfer-encoding"]
      loop do
        size = @io.gets("\r\n").to_i(16)
        body << @io.read(size) if size > 0
        @io.read(2)
        return body if size.zero?
      end
    end

    def write(*bytes) = @io.write(*bytes)

    # A whole answer.
    def answer(body = "ok", status: "200 OK", fields: [])
      lines = ["HTTP/1.1 #{status}", "Content-Length: #{body.bytesize}", *fields]
      write(lines.join("\r\n"), "\r\n\r\n", body)
    end

    # Ends the connection as if the machine had failed.
    def reset
      @io.setsockopt(Socket::SOL_SOCKET, Socket::SO_LINGER, [1, 0].pack("ii"))
      @io.close
    end
  end
end
