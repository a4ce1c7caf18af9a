# frozen_string_literal: true

# Connections that an application opens without Net::HTTP: by other HTTP libraries (Excon, HTTPX, http.rb), to message queues, mail and directory servers, or by
# itself. What goes over them can't be told apart as read or write, and not recorded: none is opened. Nor are sockets made as files. Those of the libraries that have guards of their own are
# (redis.rb, memcached.rb, mongo.rb), and of databases' drivers in C, which do not come here. Datagrams are not looked at, nor what other programs send.
module Paceline
  module Server
    module Shadow
      class Guards
        module Sockets
          # Names are asked for there when an answer is too long for a datagram.
          DNS = 53
          # The front learns there what is written (Paceline::AutoCache). Nothing is; and without a connection the application goes on.
          JOURNAL = /\Apaceline-journal-\d+\.sock\z/
          private_constant :DNS, :JOURNAL

          # Before TCPSocket.
          module OfTCPSocket
            def initialize(host, port, *, **)
              Sockets.check { "#{host || "localhost"}:#{port}" } unless port.to_s == DNS.to_s
              Confinement.outside { super }
            end
          end

          # Before BasicSocket: a connection may be opened with its first data.
          module OfBasicSocket
            def send(message, flags, address = nil)
              Sockets.check_address(self, address) if address
              super
            end

            def sendmsg(message, flags = 0, address = nil, *controls)
              Sockets.check_address(self, address) if address
              super
            end

            def sendmsg_nonblock(message, flags = 0, address = nil, *controls, **)
              Sockets.check_address(self, address) if address
              super
            end
          end

          # Before Socket.
          module OfSocket
            def bind(address)
              Sockets.check_file(address)
              super
            end

            def connect(address)
              Sockets.check_address(self, address)
              Confinement.outside { super }
            end

            def connect_nonblock(address, **)
              Sockets.check_address(self, address)
              Confinement.outside { super }
            end
          end

          # Before UNIXSocket.
          module OfUNIXSocket
            def initialize(path)
              Sockets.check(journal: File.basename(path).match?(JOURNAL)) { Sockets.name(path) }
              super
            end
          end

          # Before UNIXServer: its socket is a file.
          module OfUNIXServer
            def initialize(path)
              Sockets.check_file(Addrinfo.unix(path))
              super
            end
          end

          class << self
            def there?
              true
            end

            def install
              close_inherited
              ::BasicSocket.prepend(OfBasicSocket)
              ::TCPSocket.prepend(OfTCPSocket)
              ::Socket.prepend(OfSocket)
              ::UNIXSocket.prepend(OfUNIXSocket)
              ::UNIXServer.prepend(OfUNIXServer)
            end

            # The block says where to. Raises Errno::ECONNREFUSED.
            def check(journal: false)
              return if Guards.off? || Outbound.connecting?
              raise Outbound::Refused, "a shadow announces nothing" if journal

              refuse("a connection to #{yield} without Net::HTTP")
            end

            # `address`: an Addrinfo, or as the kernel takes it.
            def check_address(socket, address)
              return if socket.getsockopt(:SOCKET, :TYPE).int == ::Socket::SOCK_DGRAM

              address = Addrinfo.new(address) unless address.is_a?(Addrinfo)
              return if address.ip? && address.ip_port == DNS

              check { address.unix? ? name(address.unix_path) : address.inspect_sockaddr }
            end

            # A socket that is bound to a path is made there, unless it has no file (`\0`). Raises Errno::EROFS.
            def check_file(address)
              address = Addrinfo.new(address) unless address.is_a?(Addrinfo)
              Files.to_change(address.unix_path) if address.unix? && !address.unix_path.empty?
            end

            # Of a Unix socket, below the application's folder if it is there.
            def name(path)
              File.expand_path(path).delete_prefix("#{Guards.shadow.root.chomp("/")}/")
            end

            # Raises Errno::ECONNREFUSED.
            def refuse(what)
              Guards.note("outbound", what)
              raise Outbound::Refused, what
            end

            private

            # What was connected before the fork belongs to the process that forked this one, which keeps its own descriptors. Here they are closed without a
            # word to the other end: libraries open another, or say that theirs is closed.
            def close_inherited
              ObjectSpace.each_object(::BasicSocket).select { |socket| closable?(socket) && connected?(socket) }.each(&:close)
              drivers = ObjectSpace.each_object(::BasicSocket).select { |socket| socket.instance_variable_get(:@paceline_of_shadow) }.map(&:fileno)
              # Those that a library in C has.
              Confinement::Inherited.lead_sockets_nowhere do |number|
                !drivers.include?(number) && connected?(::Socket.for_fd(number).tap { |socket| socket.autoclose = false })
              end
            end

            # Those to which another object holds the descriptor are left alone, and the one that leads to the driver.
            def closable?(socket)
              !socket.closed? && socket.autoclose? && !socket.instance_variable_get(:@paceline_of_shadow)
            end

            def connected?(socket)
              socket.getsockopt(:SOCKET, :TYPE).int == ::Socket::SOCK_STREAM && leads_out?(socket.remote_address)
            rescue SystemCallError, IOError
              false
            end

            # The sockets of a pair have no path.
            def leads_out?(address)
              address.ip? || address.unix? && !address.unix_path.empty?
            end
          end
        end
      end
    end
  end
end
