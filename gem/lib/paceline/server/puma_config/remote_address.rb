# frozen_string_literal: true

# REMOTE_ADDR as `set_remote_address` of config/puma.rb wants it: a fixed text, or the first word of a header field. The
# front's own rules, limits and log keep to the connection's address. Never trusts more than the file says.
module Paceline
  module Server
    class PumaConfig
      class RemoteAddress
        # Puma's options for each form of the word.
        def self.options(value)
          case value
          when :socket then { remote_address: :socket }
          when :localhost then { remote_address: :value, remote_address_value: "127.0.0.1" }
          when String then { remote_address: :value, remote_address_value: value }
          when Hash then of_hash(value)
          else raise ArgumentError, "set_remote_address #{value.inspect}: must be :socket, :localhost, a text, header: or proxy_protocol: :v1"
          end
        end

        def self.of_hash(value)
          header, version = value[:header], value[:proxy_protocol]
          return { remote_address: :header, remote_address_header: "HTTP_#{header.to_s.upcase.tr("-", "_")}" } if header
          return { remote_address: :proxy_protocol, remote_address_proxy_protocol: :v1 } if version.to_s.downcase == "v1"
          raise ArgumentError, "set_remote_address #{value.inspect}: must be header: or proxy_protocol: :v1"
        end
        private_class_method :of_hash

        def self.of(options)
          case options[:remote_address]
          when :value then new(value: options[:remote_address_value].to_s.dup.freeze)
          when :header then new(header: options[:remote_address_header].to_s.dup.freeze)
          end
        end

        # The variable of the env that it is taken from, or nil.
        attr_reader :header

        def initialize(value: nil, header: nil)
          @value = value
          @header = header
        end

        def apply(env)
          address = @value || env[@header].to_s[/[^\s,]+/]
          env["REMOTE_ADDR"] = address if address
        end
      end
    end
  end
end
