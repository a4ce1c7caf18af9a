# frozen_string_literal: true

# What is known of how long one destination keeps idle connections open, and whether a request that must not be sent twice (POST, PATCH) may
# take a connection that was used before. It only remembers what it is told.
#
# A server may close an idle connection at the very moment at which a request is sent on it, and the client can't know whether the request was
# processed. Idempotent requests are sent again (RFC 9112 section 9.3.1). Others need evidence: a connection to the same destination has been seen
# open after a second more of idle time. So no idle time-out of the server's, whatever its length, can end while the request is on its way.
module Paceline
  module HTTP
    class KeepAlive
      # Idle time (s) of the evidence beyond that of the connection that is taken: more than a request and the news of a close take on their way.
      MARGIN = 1
      # For how long (s) no connection is trusted after a server has closed one that it was expected to keep; doubled each time, up to the longest.
      DISTRUST = 60
      DISTRUST_MAX = 3600
      private_constant :MARGIN, :DISTRUST, :DISTRUST_MAX

      def initialize
        @longest = @until = 0
        @distrust = DISTRUST
      end

      # A connection that was idle for so long (s) is open.
      def found_open(idle)
        @longest = idle if idle > @longest
      end

      # The server has closed one that was idle for at most so long (s). No two connections last equally long: what matters is whether one like that
      # would have been trusted, or has had no time to be idle at all.
      def found_closed(idle)
        expected = trusts?(idle) || idle < MARGIN
        @longest = idle if idle < @longest
        return if !expected || distrusted?

        @until = HTTP.now + @distrust
        @distrust = [@distrust * 2, DISTRUST_MAX].min
      end

      # Whether a request that must not be sent twice may take a connection that was idle for so long (s).
      def trusts?(idle)
        idle + MARGIN <= @longest && !distrusted?
      end

      # Whether the server has lately closed a connection that it was expected to keep.
      def distrusted?
        HTTP.now < @until
      end
    end
  end
end
