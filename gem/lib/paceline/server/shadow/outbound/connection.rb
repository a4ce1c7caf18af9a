# frozen_string_literal: true

# Where calls go to, and the connections that were opened for them. It opens none.
module Paceline
  module Server
    module Shadow
      module Outbound
        # A server. `to_s`: "https://api.example:443".
        class Origin
          # Where a Net::HTTP leads; for Paceline's own way of opening connections too.
          def self.of(http)
            destination = http.instance_variable_get(:@destination)
            return new(destination.tls?, destination.address, destination.port, !destination.proxy.nil?) if destination.respond_to?(:tls?)

            new(http.use_ssl?, http.address, http.port, http.proxy?)
          end

          attr_reader :host

          def initialize(tls, host, port, proxied)
            @tls = tls
            @host = host
            @port = port
            @proxied = proxied
          end

          def tls?
            @tls ? true : false
          end

          # Whether a proxy is asked for a tunnel before the handshake.
          def tunnel?
            tls? && @proxied
          end

          def to_s
            @to_s ||= "http#{"s" if @tls}://#{@host.include?(":") ? "[#{@host}]" : @host}:#{@port}"
          end
        end

        # One connection. Times in monotonic microseconds.
        class Connection
          attr_reader :id, :origin, :mode
          # When the socket was asked for, when it was there, and when TLS was.
          attr_writer :opened, :secured
          attr_accessor :began
          # In a replay: when it is to be open, before the handshake.
          attr_accessor :due
          # For Timeline: where on its line the connection was open; nil: a request was sent on it.
          attr_accessor :open_at

          def initialize(id, origin, mode)
            @id = id
            @origin = origin
            @mode = mode
            @open_at = 0
          end

          def connect_us
            @opened - @began
          end

          def tls_us
            @secured ? @secured - @opened : 0
          end
        end

        # Those of this process.
        class Connections
          def initialize
            @mutex = Thread::Mutex.new
            @sockets = []
            @id = 0
          end

          def next(origin, mode)
            @mutex.synchronize { Connection.new(@id += 1, origin, mode) }
          end

          # Returns the socket.
          def add(socket, connection)
            socket.instance_variable_set(:@paceline_connection, connection)
            @mutex.synchronize do
              @sockets.delete_if(&:closed?)
              @sockets << socket
            end
            socket
          end

          # The Connection of what Net::HTTP has as its socket (a Net::BufferedIO), or nil: it was not opened here.
          def of(socket)
            socket.io.to_io.instance_variable_get(:@paceline_connection)
          end

          # Gives a descriptor back without a word to the other end, which another process may be talking to.
          def abandon(socket)
            socket.io.to_io.close
          end

          def close_all
            sockets = @mutex.synchronize { @sockets.dup.tap { @sockets.clear } }
            sockets.each { |socket| socket.close unless socket.closed? }
          end
        end
      end
    end
  end
end
