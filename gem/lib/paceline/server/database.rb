# frozen_string_literal: true

# ActiveRecord's connections, which two processes must not share. Loads nothing: without ActiveRecord there is nothing to do.
module Paceline
  module Server
    module Database
      module_function

      # Closes those of every database and role; who asks next gets a new one.
      def disconnect
        return unless defined?(::ActiveRecord::Base)
        handler = ::ActiveRecord::Base.connection_handler
        every_role = ([::ActiveRecord::VERSION::MAJOR, ::ActiveRecord::VERSION::MINOR] <=> [7, 1]) >= 0
        every_role ? handler.clear_all_connections!(:all) : handler.clear_all_connections!
      end
    end
  end
end
