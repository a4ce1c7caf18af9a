# frozen_string_literal: true

require "action_dispatch"
require "action_dispatch/middleware/session/abstract_store"
require "paceline/session/persistence"

module ActionDispatch
  module Session
    # `config.session_store :paceline_store, store: "storage/sessions.paceline", expire_after: 2.weeks, idle: 2.hours`. Options: those of
    # every session store of Rails, and Paceline::Session::Store's. The path is relative to Rails.root. Guide: docs/sessions.md.
    class PacelineStore < AbstractSecureStore
      include Paceline::Session::Persistence

      def initialize(app, options = {})
        path = options[:store]
        if defined?(::Rails.root) && ::Rails.root && path && !path.to_s.include?("://")
          options = options.merge(store: File.expand_path(path.to_s, ::Rails.root.to_s))
        end
        super
      end
    end
  end
end
