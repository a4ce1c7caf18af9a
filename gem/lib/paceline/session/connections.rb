# frozen_string_literal: true

module Paceline
  module Session
    # Connections to one Redis by the gem redis (4.2 to 5): as many as threads ask at the same time, each kept for the next who asks. Those of
    # before a fork stay the parent's.
    class Connections
      # Seconds to connect, to send and to wait for an answer; how often a command is sent again over a new connection.
      TIMEOUT = 1
      AGAIN = 1
      private_constant :TIMEOUT, :AGAIN

      # `options`: for Redis.new, before the defaults.
      def initialize(url, options)
        begin
          require "redis"
        rescue LoadError
          raise Unavailable, "sessions in Redis need the gem redis: add `gem \"redis\"` (4.2 or newer) to the Gemfile"
        end
        @options = { url: url, timeout: TIMEOUT, reconnect_attempts: AGAIN }.merge(options || {})
        @idle = []
        @mutex = Thread::Mutex.new
        @pid = Process.pid
      end

      def with
        connection = @mutex.synchronize do
          @idle = [] unless @pid == Process.pid
          @pid = Process.pid
          @idle.pop
        end
        connection ||= Redis.new(**@options)
        returned = yield connection
        @mutex.synchronize { @idle.push(connection) }
        connection = nil
        returned
      ensure
        # What was broken off may have an answer on its way.
        connection&.close
      end
    end
    private_constant :Connections
  end
end
