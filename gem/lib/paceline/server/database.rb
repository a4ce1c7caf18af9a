# frozen_string_literal: true

# ActiveRecord's connections, which two processes must not share. Loads nothing: without ActiveRecord there is nothing to do.
module Paceline
  module Server
    module Database
      module_function

      # Closes those of every database and role; who asks next gets a new one.
      def disconnect = in_every_role(:clear_all_connections!)

      # This thread gives back those that it has: others may use them.
      def release = in_every_role(:clear_active_connections!)

      def in_every_role(method)
        return unless defined?(::ActiveRecord::Base)
        handler = ::ActiveRecord::Base.connection_handler
        every_role = ([::ActiveRecord::VERSION::MAJOR, ::ActiveRecord::VERSION::MINOR] <=> [7, 1]) >= 0
        every_role ? handler.public_send(method, :all) : handler.public_send(method)
      end
    end
  end
end
