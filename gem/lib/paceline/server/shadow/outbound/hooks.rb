# frozen_string_literal: true

# Where Net::HTTP and the sockets that it opens are caught. These methods only call Outbound; the application's own methods and those of
# Paceline::HTTP may stand before or behind them. Net::HTTP is not loaded by this.
module Paceline
  module Server
    module Shadow
      module Outbound
        module Hooks
          # Before Net::HTTP.
          module Calls
            def request(req, body = nil, &block)
              Outbound.call(self, req, body) { super }
            end

            private

            def connect
              Outbound.connect(self) { super }
            end

            def ssl_socket_connect(socket, timeout)
              Outbound.shake_hands(self, socket) { super }
            end

            def begin_transport(req)
              Outbound.look_at(@socket)
              super
              Outbound.start(self, @socket, req)
            end

            def end_transport(req, res)
              super
              Outbound.finish(req)
            end

            def transport_request(req, &block)
              reading = block && Outbound.reading(req, block)
              Outbound.transport(req) { super(req, &reading) }
            end
          end

          # Before the ways in which Net::HTTP opens a socket: TCPSocket.open or Socket.tcp, depending on its version. Others who use them get what
          # they want.
          module TCPSockets
            def open(*to, **options, &block)
              http = (Thread.current[:paceline_connecting] if equal?(::TCPSocket)) or return super
              Outbound.open_socket(http) { |stand_in| stand_in ? super("127.0.0.1", stand_in, **options) : super(*to, **options, &block) }
            end

            def new(*to, **options, &block)
              http = (Thread.current[:paceline_connecting] if equal?(::TCPSocket)) or return super
              Outbound.open_socket(http) { |stand_in| stand_in ? super("127.0.0.1", stand_in, **options) : super(*to, **options, &block) }
            end
          end

          module Sockets
            def tcp(*to, **options, &block)
              http = Thread.current[:paceline_connecting] or return super
              Outbound.open_socket(http) { |stand_in| stand_in ? super("127.0.0.1", stand_in, **options) : super(*to, **options, &block) }
            end
          end

          # Before Object.inherited: Net::HTTP may be loaded by the first request that needs it.
          module Arrival
            private

            def inherited(kind)
              super
              kind.prepend(Calls) if kind.name == "Net::HTTP"
            end
          end
          private_constant :Calls, :TCPSockets, :Sockets, :Arrival

          def self.install
            return if @installed

            @installed = true
            ::TCPSocket.singleton_class.prepend(TCPSockets)
            ::Socket.singleton_class.prepend(Sockets)
            loaded = defined?(::Net) && ::Net.const_defined?(:HTTP, false) && !::Net.autoload?(:HTTP, false)
            loaded ? ::Net::HTTP.prepend(Calls) : ::Object.singleton_class.prepend(Arrival)
          end
        end
      end
    end
  end
end
