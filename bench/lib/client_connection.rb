# frozen_string_literal: true

# One connection of the load generator: sends a request without blocking, reads the response, tells how it was delimited
# and whether it is the one expected. Driven by Load, which watches the sockets.
require "socket"

module Bench
  class ClientConnection
    READ = 256 * 1024
    # So much of a response is kept to be compared; of longer ones only the length is.
    KEPT = 512 * 1024
    BUFFER = String.new(capacity: READ)

    attr_reader :socket, :kind, :began, :failure

    def initialize(port, keep_alive)
      @address = Socket.sockaddr_in(port, "127.0.0.1")
      @keep_alive = keep_alive
    end

    # BEGAN: when the request was due, which is where its latency starts. A refused connection is a failure like others.
    def start(kind, began)
      @kind = kind
      @began = began
      @failure = nil
      connect unless @socket
      @out = kind.bytes(@keep_alive)
      @head = nil
      @in = String.new(capacity: 16 * 1024)
      @length = 0
      write
    rescue SystemCallError => e
      fail_with("#{e.class} while connecting")
    end

    def writing?
      !@out.nil?
    end

    def write
      written = @socket.write_nonblock(@out, exception: false)
      return if written == :wait_writable

      @out = written == @out.bytesize ? nil : @out.byteslice(written..)
    rescue Errno::ENOTCONN, Errno::EAGAIN
      nil
    rescue SystemCallError => e
      fail_with("#{e.class} while sending")
    end

    # Reads what is there. True when the request is over, well or not.
    def read
      return true if @failure

      loop do
        got = @socket.read_nonblock(READ, BUFFER, exception: false)
        return false if got == :wait_readable

        take(got)
        return true if over?(got.nil?)
      end
    rescue SystemCallError => e
      fail_with("#{e.class} while reading")
    end

    def close
      @socket&.close
      @socket = nil
    end

    private

    def connect
      @socket = Socket.new(Socket::AF_INET, Socket::SOCK_STREAM)
      @socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
      @socket.connect_nonblock(@address, exception: false)
    end

    def take(got)
      return unless got

      if @head
        @length += got.bytesize
        @in << got if @in.bytesize < KEPT
      else
        @in << got
        read_head
      end
    end

    def read_head
      finish = @in.index("\r\n\r\n") or return
      @status = @in.byteslice(9, 3).to_i
      # An interim response (103 Early Hints): the real one follows.
      if @status.between?(100, 199)
        @in = @in.byteslice((finish + 4)..)
        return read_head
      end
      @head = @in.byteslice(0, finish + 2)
      @declared = @head[/^content-length: *(\d+)/i, 1]&.to_i
      @chunked = @declared.nil? && @head.match?(/^transfer-encoding: *chunked/i)
      @closes = !@keep_alive || @head.match?(/^connection: *close/i) || !(@declared || @chunked)
      @in = @in.byteslice((finish + 4)..)
      @length = @in.bytesize
    end

    # Whether the response is complete; if so it is checked and the connection closed or kept.
    def over?(ended)
      complete = @head && (@declared ? @length >= @declared : (@chunked ? chunked_complete? : ended))
      return false unless complete || ended
      return fail_with(@head ? "the response is cut short" : "no response") unless complete

      verify
      close if @closes || ended
      true
    end

    # The same bytes as a response that was decoded and found right before need not be decoded again.
    def chunked_complete?
      return false unless @in.end_with?("0\r\n\r\n")
      return true if @kind.known_encoding == @in

      @decoded = Dechunk.decode(@in)
      !@decoded.nil?
    end

    def verify
      return fail_with("status #{@status}") unless @status == 200
      return if @chunked && @kind.known_encoding == @in

      length = @chunked ? @decoded.bytesize : @length
      wrong = @kind.wrong(length, @chunked ? @decoded : @in)
      return fail_with(wrong) if wrong

      @kind.known_encoding = @in if @chunked && @kind.exact?
    end

    def fail_with(why)
      @failure = why
      @out = nil
      close
      true
    end
  end

  # Takes the chunked coding off a body.
  module Dechunk
    # nil when it is not complete.
    def self.decode(raw)
      body = String.new(capacity: raw.bytesize)
      at = 0
      while (line = raw.index("\r\n", at))
        size = raw.byteslice(at, line - at).hex
        return body if size.zero?

        body << raw.byteslice(line + 2, size)
        at = line + 4 + size
      end
      nil
    end
  end
end
