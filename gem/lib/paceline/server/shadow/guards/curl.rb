# frozen_string_literal: true

require_relative "library"

# Calls by libcurl, whose sockets Ruby does not see: Typhoeus and Ethon, Curb, Patron. None is made: they can't be recorded.
module Paceline
  module Server
    module Shadow
      class Guards
        module Curl
          ORIGIN = %r{\A(?:\w+://)?(?:[^/?\#@]*@)?([^/?\#]+)}
          private_constant :ORIGIN

          # Before Ethon::Easy and Curl::Easy.
          module OfEasy
            def perform(*)
              Guards::Curl.refuse(url)
              super
            end
          end

          # Before Ethon::Multi.
          module OfEthonMulti
            def perform
              easy_handles.first(1).each { |easy| Guards::Curl.refuse(easy.url) }
              super
            end
          end

          # Before Curl::Multi.
          module OfCurlMulti
            def perform(*)
              Guards::Curl.refuse(nil) unless idle?
              super
            end
          end

          # Before Patron::Session.
          module OfPatron
            private

            def handle_request(request)
              Guards::Curl.refuse(request.url)
              super
            end
          end

          ALL = [
            Library.new("Ethon::Easy", OfEasy, method: :perform), Library.new("Ethon::Multi", OfEthonMulti, method: :perform),
            Library.new("Curl::Easy", OfEasy, method: :perform), Library.new("Curl::Multi", OfCurlMulti, method: :perform),
            Library.new("Patron::Session", OfPatron, method: :handle_request)
          ].freeze

          # `url`: what is asked for; nil: not known.
          def self.refuse(url)
            return if Guards.off?

            Sockets.refuse("a call to #{url.to_s[ORIGIN, 1] || "another server"} by libcurl")
          end
        end
      end
    end
  end
end
