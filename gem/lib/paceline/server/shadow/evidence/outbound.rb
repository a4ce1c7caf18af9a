# frozen_string_literal: true

require_relative "observer"

# Calls to other servers by Net::HTTP, with or without Paceline's connections. It counts and times them; it never changes or repeats one.
module Paceline
  module Server
    module Shadow
      class Evidence
        class Outbound < Observer
          # Of one origin, in microseconds. `wait`: from the request until its answer was read.
          Calls = Struct.new(:calls, :connections, :connect, :tls, :wait, :longest, :seen, :identical, :gets, :places, :client)
          private_constant :Calls

          # Before Net::HTTP's own methods.
          module Hooks
            private

            def connect
              observer = Outbound.active or return super
              observer.connecting(self) { super }
            end

            def ssl_socket_connect(*)
              observer = Outbound.active or return super
              observer.shaking(self) { super }
            end

            def transport_request(request, &block)
              observer = Outbound.active or return super
              observer.calling(self, request) { super }
            end
          end

          def initialize(places)
            super
            @origins = Hash.new { |all, origin| all[origin] = Calls.new(0, 0, 0.0, 0.0, 0.0, 0.0, {}, 0, 0, Tally.new, nil) }
            # What was spent on a connection belongs to its next call.
            @opening = {}.compare_by_identity
          end

          # @api private A connection is made in the block, or taken from those that are kept.
          def connecting(http)
            began = Clock.now
            shaken = calls_of(http).tls
            result = yield
            socket = http.instance_variable_get(:@socket)
            # One of Paceline's own that is not new, or that leads to the front.
            return result if socket.respond_to?(:used?) && (socket.used? || front?(socket))

            took = Clock.now - began
            calls = calls_of(http)
            calls.connections += 1
            calls.connect += took - (calls.tls - shaken)
            result
          ensure
            @opening[http] = @opening.fetch(http, 0.0) + Clock.now - began
          end

          # @api private The TLS handshake is done in the block.
          def shaking(http)
            began = Clock.now
            yield
          ensure
            calls_of(http).tls += Clock.now - began
          end

          # @api private A request is sent and answered in the block.
          def calling(http, request)
            calls = calls_of(http)
            count(calls, http, request)
            before = @opening.delete(http) || 0.0
            began = Clock.now
            yield
          ensure
            # A connection that had to be opened within it.
            opened = @opening.delete(http) || 0.0
            took = Clock.now - began
            calls.wait += took - opened
            calls.longest = [calls.longest, took + before].max
          end

          def to_h
            @origins.reject { |_, calls| calls.calls.zero? }.sort_by { |_, calls| -(calls.connect + calls.tls + calls.wait) }.map do |origin, calls|
              { origin: origin, calls: calls.calls, connections: calls.connections, connect_us: calls.connect.round, tls_us: calls.tls.round,
                wait_us: calls.wait.round, longest_us: calls.longest.round, identical: calls.identical, gets: calls.gets, at: calls.places.top,
                client: calls.client }
            end
          end

          private

          def install
            self.class.hook(::Net::HTTP, Hooks) if defined?(::Net::HTTP)
          end

          def calls_of(http)
            @origins["#{http.use_ssl? ? "https" : "http"}://#{http.address.to_s.downcase}:#{http.port}"]
          end

          def count(calls, http, request)
            Clock.aside do
              calls.calls += 1
              calls.gets += 1 if %w[GET HEAD].include?(request.method)
              call = [request.method, request.path, request.body].hash
              calls.identical += 1 if calls.seen[call]
              calls.seen[call] = true
              calls.client = client(http) unless calls.client == "net_http"
              calls.places.add(@places.here)
            end
          end

          def client(http)
            http.respond_to?(:paceline_rides?, true) && http.send(:paceline_rides?) ? "paceline" : "net_http"
          end

          def front?(socket)
            defined?(::Paceline::HTTP::FrontWire) && socket.is_a?(::Paceline::HTTP::FrontWire)
          end
        end
      end
    end
  end
end
