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
        every_role? ? handler.public_send(method, :all) : handler.public_send(method)
      end

      # The size of the pool from which what this thread runs holds a connection: itself, or the thread of ActionController::Live that runs its
      # action, which has its `channel`. Nil: it holds none, or it can't be told.
      def held_pool_size(channel)
        return unless defined?(::ActiveRecord::Base)
        handler = ::ActiveRecord::Base.connection_handler
        pools = every_role? ? handler.connection_pool_list(:all) : handler.connection_pool_list
        pools.find { |pool| pool.connections.any? { |connection| held?(connection.owner, channel) } }&.size
      rescue StandardError # of another version's
        nil
      end

      def held?(owner, channel)
        owner.equal?(Thread.current) || (owner.is_a?(Thread) && owner[:paceline_channel].equal?(channel))
      end

      # What Rails asked for a role since 7.1.
      def every_role?
        ([::ActiveRecord::VERSION::MAJOR, ::ActiveRecord::VERSION::MINOR] <=> [7, 1]) >= 0
      end
    end
  end
end
