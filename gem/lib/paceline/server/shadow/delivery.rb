# frozen_string_literal: true

# Where the pieces of a replayed body go. Gathered: into one string, as under Paceline. In pieces: also to a socket by writes of their own, as under
# Puma 5, so that many small pieces cost what they cost there. It never changes a piece.
require "socket.so"

module Paceline
  module Server
    module Shadow
      module Delivery
        # Collects pieces.
        class Gathered
          # Of the body so far.
          attr_reader :body

          # Pieces that were not empty.
          attr_reader :count

          def initialize
            @body = String.new(encoding: Encoding::BINARY)
            @count = 0
          end

          # The head comes first. `pairs`: header fields; `length`: the body's, or nil if it is not known.
          def start(_status, _pairs, _length); end

          # Returns the bytes that were taken.
          def add(piece)
            return 0 if piece.empty?

            @count += 1
            @body << (piece.ascii_only? ? piece : piece.b)
            piece.bytesize
          end

          # A stream may ask for it; pieces do not wait in any case.
          def flush; end

          # There are no more pieces.
          def finish; end
        end

        # Sends them, too. `socket`: one of what `Delivery.open_sockets` returned.
        class Pieces < Gathered
          LAST = "0\r\n\r\n"
          private_constant :LAST

          def initialize(socket)
            super()
            @socket = socket
          end

          def start(status, pairs, length)
            @socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_CORK, 1)
            @chunked = length.nil?
            head = +"HTTP/1.1 #{status}\r\n"
            pairs.each { |name, value| head << name << ": " << value << "\r\n" }
            write(head << (@chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "Content-Length: #{length}\r\n\r\n"))
          end

          def add(piece)
            return 0 if piece.empty?

            write("#{piece.bytesize.to_s(16)}\r\n") if @chunked
            write(piece)
            write("\r\n") if @chunked
            super
          end

          def finish
            write(LAST) if @chunked
            @socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_CORK, 0)
          end

          private

          def write(bytes)
            written = @socket.syswrite(bytes)
            while written < bytes.bytesize
              bytes = bytes.byteslice(written..)
              written = @socket.syswrite(bytes)
            end
          end
        end

        # Bytes that the reader takes at once.
        READ = 64 * 1024
        private_constant :READ

        module_function

        # TCP connections to a process that reads and does nothing else, until this one ends.
        def open_sockets(count)
          listener = TCPServer.new("127.0.0.1", 0)
          ForkedChild.deliberately { ::Process.fork { read_all(listener, count) } }.then { |pid| ::Process.detach(pid) }
          Array.new(count) do
            socket = TCPSocket.new("127.0.0.1", listener.addr[1])
            socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
            socket
          end
        ensure
          listener&.close
        end

        # `listener`: of `count` connections that come.
        def read_all(listener, count)
          ParentDeath.follow
          sockets = Array.new(count) { listener.accept }
          listener.close
          buffer = String.new(capacity: READ)
          loop { IO.select(sockets).first.each { |socket| socket.readpartial(READ, buffer) } }
        rescue SystemCallError, IOError
          nil
        ensure
          exit!(0)
        end
      end
    end
  end
end
