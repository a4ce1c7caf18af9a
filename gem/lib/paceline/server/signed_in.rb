# frozen_string_literal: true

# Somebody whom the front has signed in, as an app's env has them. It never decides who that is.
module Paceline
  module Server
    module SignedIn
      SEPARATOR = "\x1F".b.freeze
      AUTH_TYPES = { "basic" => "Basic", "openid" => "OpenID" }.freeze
      private_constant :SEPARATOR, :AUTH_TYPES

      # What the front says: mechanism, name and groups, with a unit separator between them.
      def self.parse(text)
        mechanism, name, *groups = text.b.split(SEPARATOR, -1).map { |part| part.force_encoding(Encoding::UTF_8).freeze }
        { name: name, groups: groups.freeze, mechanism: mechanism }.freeze
      end

      # All that the front says of them in a request's env.
      def self.env(text)
        user = parse(text)
        { "REMOTE_USER" => user[:name].b, "AUTH_TYPE" => AUTH_TYPES.fetch(user[:mechanism], "Negotiate").b, "paceline.user" => user }
      end
    end
  end
end
