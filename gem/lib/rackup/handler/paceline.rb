# frozen_string_literal: true

# Registers the handler with rackup 2 (`rackup -s paceline`). All it does is in paceline/server/handler.rb.
require "rackup/handler"
require_relative "../../paceline/server/handler"

module Rackup
  module Handler
    class Paceline
      def self.run(app, **options, &block) = ::Paceline::Server::Handler.run(app, **options, &block)

      def self.valid_options = ::Paceline::Server::Handler::OPTIONS
    end

    register(:paceline, Paceline)
  end
end
