# frozen_string_literal: true

# Registers the handler with Rack 2 (`rackup -s paceline`). All it does is in paceline/server/handler.rb.
require_relative "../../paceline/server/handler"

module Rack
  module Handler
    class Paceline
      def self.run(app, **options, &block) = ::Paceline::Server::Handler.run(app, **options, &block)

      def self.valid_options = ::Paceline::Server::Handler::OPTIONS
    end

    register(:paceline, "Rack::Handler::Paceline") if respond_to?(:register)
  end
end
