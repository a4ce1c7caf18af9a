# frozen_string_literal: true

# Whether a Net::HTTP connects as Ruby's own does. Where a library has put another `connect` in its place (httplog, tests), or lets it connect to
# another address than it says (socksify, for SOCKS and Tor), only that code knows where a connection leads: it makes each of them by itself.
module Paceline
  module HTTP
    module OwnConnect
      RUBYS = %r{/net/http\.rb\z}
      private_constant :RUBYS

      @replaced = false

      class << self
        # Whether `http` connects to where it says, by code that is known.
        def rubys?(http)
          !@replaced && http.method(:conn_address).owner.equal?(Stock)
        end

        # Looks at Net::HTTP once more: a method of it was defined.
        def look
          found = Stock.instance_method(:connect)
          # Modules stand before it. An alias may lead in circles.
          Stock.ancestors.size.times { found = found.super_method unless found.nil? || rubys_code?(found) }
          @replaced = found.nil? || !rubys_code?(found)
        end

        private

        def rubys_code?(method)
          RUBYS.match?(method.source_location&.first.to_s)
        end
      end

      # For Net::HTTP itself: notices those who come later.
      module Detection
        private

        def method_added(name)
          super
          OwnConnect.look if name == :connect && equal?(Stock)
        end
      end
    end
  end
end
