# frozen_string_literal: true

# What may go wrong beyond what Net::HTTP knows. Each is a kind of what applications rescue for Net::HTTP already.
module Paceline
  module HTTP
    # The time that `Paceline::HTTP.deadline` allows is over.
    class DeadlineExceeded < Net::ReadTimeout; end

    # The operator of the server does not allow calls to there: the front's guard, or its list of hosts.
    class Denied < SocketError; end

    # The client has left for whom the call was made (`egress_cancel`). Nothing that Net::HTTP repeats a request for.
    class ClientGone < SocketError; end

    # Too many calls wait for this upstream already.
    class Full < Net::OpenTimeout; end

    # The upstream has failed too often, and is not asked for a while.
    class OpenCircuit < Net::OpenTimeout
      # Seconds until it is asked again; nil if that is not known.
      attr_reader :retry_after

      def initialize(message = nil, retry_after = nil)
        super(message)
        @retry_after = retry_after
      end
    end

    # The front can't make this call as it is asked for. Nobody outside sees it: the call is made from here.
    class Declined < StandardError; end

    # The front does not take this request for HTTP, and has not looked whom it is for.
    class Odd < Declined; end

    # The front has no connection for a call. Net::HTTP raises such failures before it sends a request, so that it does not repeat it.
    class Unopened < StandardError
      # The exception that Net::HTTP#connect would have raised.
      attr_reader :failure

      def initialize(failure)
        super(failure.message)
        @failure = failure
      end
    end
    private_constant :Declined, :Odd, :Unopened
  end
end
