# frozen_string_literal: true

require_relative "library"

# memcached by the gem dalli: what only reads is sent. Anything else is noted as a write, and refused. Rails.cache writes before this, into the shadow's
# memory (caches.rb).
module Paceline
  module Server
    module Shadow
      class Guards
        module Memcached
          # What is asked of a server, as Dalli names it. To read and give more time (`gat`, `touch`) is a write.
          READING = %i[cas get noop pipelined_get read_multi_req send_multiget stats version].freeze

          # Before Dalli's class of servers: each of its versions has another, and asks them all by this method.
          module OfServer
            def request(operation, *)
              unless Guards.off? || READING.include?(operation)
                Guards.note("store", "the memcached operation #{operation}")
                raise ::Dalli::DalliError, "a shadow of paceline doctor does not write"
              end
              super
            end
          end

          # Before the class methods of Dalli's sockets.
          module OfSocket
            def open(...)
              Guards.unguarded { super }
            end
          end

          ALL = [
            *%w[Dalli::Protocol::Base Dalli::Protocol::Binary Dalli::Server].map { |name| Library.new(name, OfServer, method: :request) },
            *%w[Dalli::Socket::TCP Dalli::Socket::UNIX].map { |name| Library.new(name, OfSocket, method: :open, singleton: true) }
          ].freeze
        end
      end
    end
  end
end
