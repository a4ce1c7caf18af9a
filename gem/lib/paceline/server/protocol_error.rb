# frozen_string_literal: true

# The front, or what poses as it, sent what the worker protocol does not know.
module Paceline
  module Server
    class ProtocolError < StandardError; end
  end
end
