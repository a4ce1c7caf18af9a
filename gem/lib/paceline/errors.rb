# frozen_string_literal: true

# What the server raises within an application.
module Paceline
  # Raised at a write when the client is gone. An IOError, which frameworks already expect of a socket.
  class ClientGone < IOError; end

  # The client went away, or broke the framing, before the request's body was whole.
  class BodyCutOff < IOError; end

  # Raised in a request that goes on when its worker has to end. Soon after that the process is killed.
  class RequestInterrupted < StandardError; end

  # The app answered what can't be sent: a status, header or body outside Rack's SPEC and RFC 9110.
  class InvalidResponse < StandardError; end
end
