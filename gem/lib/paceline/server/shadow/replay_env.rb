# frozen_string_literal: true

# A replayed request as a Rack env: what the front and a worker make of the same request (request_env.rb, and the front's rack/env.rs), without
# hijack and early hints. Its request id follows from the seed.
require_relative "../../version"
require_relative "../signed_in"

module Paceline
  module Server
    module Shadow
      class ReplayEnv
        # As crates/http-guard/src/withheld.rs has them, and those of a body: none comes.
        WITHHELD = %w[host content-length transfer-encoding content-type x-request-id x-request-start x-sendfile-type x-accel-mapping proxy version].freeze
        SOFTWARE = "paceline/#{VERSION}".b.freeze
        GATEWAY = "CGI/1.1".b.freeze
        # The request id is not what SecureRandom gives the application.
        SALT = 0x7061_6365
        # Addresses for documentation (RFC 5737), which no visitor has.
        STRANGER = "203.0.113.77".b.freeze
        private_constant :WITHHELD, :SOFTWARE, :GATEWAY, :SALT, :STRANGER

        def initialize(rack3:)
          @rack3 = rack3
        end

        # `request`: the driver's; `clock`: seconds since the Unix epoch at which the request comes; `stranger`: it comes from another address.
        def build(request, clock:, seed:, stranger: false)
          env = head(request).merge!(headers(request["headers"]))
          env["HTTP_X_REQUEST_ID"] = Random.new(seed ^ SALT).bytes(16).unpack1("H*").b
          env["HTTP_X_REQUEST_START"] = format("t=%.6f", clock).b
          env.update(SignedIn.env(request["user"])) if request["user"]
          env["REMOTE_ADDR"] = STRANGER if stranger
          env.update(constants)
        end

        private

        def head(request)
          https = request["scheme"] == "https"
          name, port = split_host(request["host"].to_s)
          path, query = request.values_at("path", "query").map { |text| text.to_s.b }
          env = {
            "REQUEST_METHOD" => request["method"].b, "SCRIPT_NAME" => "".b, "PATH_INFO" => path, "QUERY_STRING" => query,
            "REQUEST_URI" => query.empty? ? path.dup : "#{path}?#{query}".b, "SERVER_NAME" => name.empty? ? "127.0.0.1".b : name,
            "SERVER_PORT" => port || (https ? "443" : "80").b, "SERVER_PROTOCOL" => "HTTP/1.1".b, "REMOTE_ADDR" => "127.0.0.1".b,
            "rack.url_scheme" => (https ? "https" : "http").b
          }
          env["HTTPS"] = "on".b if https
          env["HTTP_HOST"] = request["host"].b unless name.empty?
          env
        end

        # Lines of one name are one list (RFC 9110 section 5.3, RFC 9113 section 8.2.3).
        def headers(pairs)
          pairs.each_with_object({}) do |(name, value), env|
            name = name.downcase
            next if WITHHELD.include?(name) || name.include?("_")

            key = "HTTP_#{name.upcase.tr("-", "_")}".b
            separator = name == "cookie" ? "; " : ", "
            env[key] = env.key?(key) ? env[key] << separator << value.b : value.b
          end
        end

        def constants
          always = { "rack.errors" => $stderr, "rack.input" => StringIO.new("".b), "rack.after_reply" => [], "SERVER_SOFTWARE" => SOFTWARE,
                     "GATEWAY_INTERFACE" => GATEWAY }
          return always.merge!("rack.response_finished" => []) if @rack3

          always.merge!("rack.version" => [1, 6], "rack.multithread" => true, "rack.multiprocess" => true, "rack.run_once" => false)
        end

        # Name and port; nil: the host has no port.
        def split_host(host)
          name, port = host.b.match(/\A(\[[^\]]*\]|[^:]*)(?::(\d+))?\z/n)&.captures
          [name || host.b, port]
        end
      end
    end
  end
end
