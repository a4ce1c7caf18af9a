# frozen_string_literal: true

# A Net::HTTP that rides whatever `install!` was told. Its class is made of the Net::HTTP of the moment: WebMock and the like put another one in
# that place, and what they stub is stubbed here, too.
module Paceline
  module HTTP
    module AlwaysLent
      # Asking the environment for a proxy takes a URI and some time; mostly there is nothing to be found.
      def proxy_uri
        @proxy_uri = false if @proxy_uri.nil? && !(ENV["http_proxy"] || ENV["HTTP_PROXY"] || ENV["REQUEST_METHOD"])
        super
      end

      private

      def paceline_rides?
        true
      end
    end

    class Session < Stock
      prepend AlwaysLent

      @replaced = nil

      class << self
        # The class whose objects are to be used now.
        def now
          return self if Net::HTTP.equal?(Stock)

          @replaced = replacement(Net::HTTP) unless @replaced && @replaced.superclass.equal?(Net::HTTP)
          @replaced
        end

        private

        def replacement(kind)
          Class.new(kind) { prepend AlwaysLent }
        end
      end
    end
  end
end
