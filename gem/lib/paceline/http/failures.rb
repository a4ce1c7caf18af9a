# frozen_string_literal: true

# The front's kinds of failure (docs/egress-protocol.md) as the exceptions that Net::HTTP would have raised, with the words of this Ruby's.
module Paceline
  module HTTP
    module Failures
      PARAMETER = /;\s*([a-z_]+)=("(?:[^"\\]|\\.)*"|[^;\s]+)/
      # Since net-http 0.3 a connection is opened by TCPSocket.open, whose errors name the address in another way.
      QUOTED = Net::HTTP::VERSION >= "0.3"
      # Those of a connection that is not there yet.
      OPENING = %w[resolve connect open_timeout tls proxy].freeze
      private_constant :PARAMETER, :QUOTED, :OPENING

      class << self
        # What to raise for this value of Paceline-Egress-Error.
        def of(field, destination)
          kind = field[/\A[a-z_]+/]
          failure = exception(kind, field, destination)
          OPENING.include?(kind) ? Unopened.new(failure) : failure
        end

        private

        def exception(kind, field, destination)
          facts = field.scan(PARAMETER).to_h { |name, value| [name, plain(value)] }
          message = facts["message"]
          case kind
          when "resolve" then resolve(destination, message)
          when "connect" then connect(destination, facts)
          when "open_timeout" then Net::OpenTimeout.new(open_timeout(destination))
          when "deadline" then DeadlineExceeded.new
          when "tls" then OpenSSL::SSL::SSLError.new(tls(message))
          when "proxy" then proxy(facts)
          when "closed" then EOFError.new("end of file reached")
          when "reset" then SystemCallError.new(nil, facts["errno"].to_i)
          when "protocol" then Net::HTTPBadResponse.new(message)
          when "cancelled" then ClientGone.new("the client of this request has left")
          when "denied" then Denied.new("#{destination.address}: #{message}")
          when "full" then Full.new("#{destination.address}: #{message}")
          when "open_circuit" then OpenCircuit.new("#{destination.address} is not asked for a while, it has failed too often", facts["retry_after"]&.to_f)
          # `unsupported`; `request`, which may be something that an upstream would have put up with; and what a newer front says.
          else Declined.new(message)
          end
        end

        def plain(value)
          value.start_with?('"') ? value[1..-2].gsub(/\\(.)/, '\1') : value
        end

        def where(destination)
          proxy = destination.proxy
          proxy ? proxy.first(2) : [destination.ipaddr || destination.address, destination.port]
        end

        def failed(destination, why)
          "Failed to open TCP connection to #{where(destination).join(":")} (#{why})"
        end

        def resolve(destination, message)
          kind = defined?(Socket::ResolutionError) ? Socket::ResolutionError : SocketError
          kind.new(failed(destination, "#{resolver}: #{message || "Name or service not known"}"))
        end

        # What TCPSocket says was asked for an address: another function if it asks for both families at once, as Ruby 3.4 and newer do
        # unless that is turned off.
        def resolver
          Socket.respond_to?(:tcp_fast_fallback) && Socket.tcp_fast_fallback ? "getaddrinfo(3)" : "getaddrinfo"
        end

        def connect(destination, facts)
          host, port = where(destination)
          kind = SystemCallError.new(nil, facts["errno"].to_i)
          why = kind.message
          return Net::OpenTimeout.new(failed(destination, why)) if kind.is_a?(Errno::ETIMEDOUT) && !QUOTED

          address = QUOTED ? "\"#{host}\" port #{port}" : "#{facts["address"] || where(destination).join(":")}"
          kind.exception(failed(destination, "#{why} - connect(2) for #{address}"))
        end

        def open_timeout(destination)
          QUOTED ? failed(destination, "execution expired") : failed(destination, "Connection timed out - user specified timeout")
        end

        # The first words are OpenSSL's, which some look for.
        def tls(message)
          return message if message.to_s.start_with?("SSL_connect")

          message = "certificate verify failed (#{message})" if message.to_s.match?(/certificate/i) && !message.include?("certificate verify failed")
          "SSL_connect returned=1 errno=0 state=error: #{message}"
        end

        def proxy(facts)
          code = facts["status"].to_s
          kind = Net::HTTPResponse::CODE_TO_OBJ[code] || Net::HTTPUnknownResponse
          response = kind.new("1.1", code, facts["message"])
          response.error!
        rescue Net::ProtocolError => e
          e
        end
      end
    end
  end
end
