# frozen_string_literal: true

# `bin/rails server` without -u serves with Paceline where the gem is in the Gemfile. RACK_HANDLER and -u name another server.
# Changes nothing outside `rails server`.
module Paceline
  module DefaultServer
    def default
      return super if ENV.key?("RACK_HANDLER")
      get("paceline") || super
    end

    # The module that picks the handler: Rackup's with Rack 3, Rack's own before.
    def self.install
      handlers = defined?(::Rackup::Handler) ? ::Rackup::Handler : ::Rack::Handler
      handlers.singleton_class.prepend(self)
    end
  end
end

Paceline::DefaultServer.install if defined?(Rails::Server)
