# frozen_string_literal: true

# A request body in a file, which the front made and removes. Never past the request's own end.
require_relative "protocol_error"

module Paceline
  module Server
    class SpooledInput < File
      def self.open(path)
        raise ProtocolError, "a spooled body without a path" if path.nil?
        new(path, "rb")
      end

      def finish
        close unless closed?
      end
    end
  end
end
