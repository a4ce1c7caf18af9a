# frozen_string_literal: true

# The stream object that a callable body writes to. Writes only by way of the gatherer; never touches the channel itself.
module Paceline
  module Server
    # The argument of a callable (streaming) body, as Rack 3 wants it.
    class Stream
      def initialize(gatherer, input)
        @gatherer = gatherer
        @input = input
        @read_closed = false
        @write_closed = false
      end

      def read(*arguments)
        raise IOError, "not opened for reading" if @read_closed
        @input&.read(*arguments)
      end

      def write(*strings)
        raise IOError, "not opened for writing" if @write_closed
        strings.sum { |string| @gatherer.add(string.to_s) }
      end

      def <<(string)
        write(string)
        self
      end

      # What was written is on its way to the client.
      def flush
        @gatherer.flush
        self
      end

      def close_read
        @read_closed = true
        nil
      end

      def close_write
        @write_closed = true
        nil
      end

      def close
        @read_closed = @write_closed = true
        nil
      end

      def closed?
        @read_closed && @write_closed
      end
    end
  end
end
