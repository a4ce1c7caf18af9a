# frozen_string_literal: true

module Paceline
  class Context
    # What a connection of Action Cable does, each command and broadcast, is done in a context of its own: with the connection's user and the id of the
    # request that opened it. In ActionCable::Server::Worker, around its work.
    module Connections
      def in_paceline_context(&block)
        Slot.with(Scope.new(ConnectionSource.new(connection)), &block)
      end

      # Sees to it that this is so.
      def self.install
        worker = ::ActionCable::Server::Worker
        return if worker.include?(self)

        worker.include(self)
        worker.set_callback(:work, :around, :in_paceline_context)
      end
    end

    # A connection: its `current_user` if it is identified by one, else what user_from finds in the request that opened it, which is then kept for it.
    class ConnectionSource < EnvSource
      def initialize(connection)
        super(connection.env)
        @connection = connection
      end

      def user
        identified = @connection.respond_to?(:current_user) && @connection.current_user
        return identified if identified

        @connection.instance_variable_get(:@paceline_user) || @connection.instance_variable_set(:@paceline_user, super)
      end
    end
    private_constant :Connections, :ConnectionSource
  end
end
