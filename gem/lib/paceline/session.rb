# frozen_string_literal: true

# `require "paceline/session"`: Rack::Session::Paceline, sessions in a file that all processes of a machine share, or in Redis. For Rack 2, and
# for Rack 3 with the gem rack-session. Guide: docs/sessions.md. Rails finds its own by `config.session_store :paceline_store`.
begin
  require "rack/session/abstract/id"
rescue LoadError
  raise LoadError, "paceline/session needs Rack's sessions: add `gem \"rack-session\"` to the Gemfile (Rack 2 has them built in)"
end
require_relative "session/persistence"

module Rack
  module Session
    # `use Rack::Session::Paceline, store: "data/sessions.paceline"`. Options: those of every session store of Rack (key, path, domain,
    # secure, httponly, same_site, expire_after, renew, drop, defer, skip, sidbits, secure_random), and Paceline::Session::Store's.
    class Paceline < Abstract::PersistedSecure
      include ::Paceline::Session::Persistence

      private

      # What Rack would take without a word: ids of Kernel.rand, or short ones.
      def initialize_sid
        super
        raise ArgumentError, "secure_random: must generate ids that can't be guessed, like SecureRandom" unless @sid_secure
        raise ArgumentError, "sidbits: must be at least 64, so that ids can't be guessed" if @sidbits < 64
      end
    end
  end
end
