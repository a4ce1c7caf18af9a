# frozen_string_literal: true

# A control socket to the front: whole frames in and out, some followed by a file descriptor. Knows nothing of
# what the frames mean, and never leaves a half-written frame: one writer at a time.
require "socket.so" # not "socket", whose Ruby half activates the gem io-wait
require_relative "frames"

module Paceline
  module Server
    class Control
      # The front is gone.
      class FrontGone < StandardError; end

      attr_reader :io

      def self.from_env(name = "PACELINE_CONTROL_FD")
        number = ENV.delete(name)
        raise ProtocolError, "#{name} is not set" unless number&.match?(/\A\d+\z/)
        new(UNIXSocket.for_fd(number.to_i))
      end

      def initialize(io)
        @io = io
        @io.close_on_exec = true
        @lock = Mutex.new
        @buffer = String.new(encoding: Encoding::BINARY)
      end

      def send(type, payload = "", fd: nil)
        send_together([type, payload, fd])
      end

      # Sends frames, each [type, payload, descriptor or nil], with none of another thread's between them.
      def send_together(*frames)
        @lock.synchronize do
          frames.each do |type, payload, fd|
            @io.write(Frames.frame(type, payload))
            @io.send_io(fd) if fd
          end
        end
      rescue SystemCallError, IOError => e
        raise FrontGone, "the front is gone (#{e.class})"
      end

      # The next frame as [type, payload]; nil when the front is gone.
      def read
        until (frame = take)
          @buffer << @io.readpartial(16_384)
        end
        frame
      rescue EOFError, Errno::ECONNRESET
        nil
      end

      # True when a whole frame was read already, so that the socket need not be readable.
      def buffered?
        @buffer.bytesize >= 5 && @buffer.bytesize >= @buffer.unpack1("N") + 5
      end

      def close
        @io.close unless @io.closed?
      end

      private

      def take
        return if @buffer.bytesize < 5
        length = @buffer.unpack1("N")
        raise ProtocolError, "control frame of #{length} bytes" if length > Frames::MAX_PAYLOAD
        return if @buffer.bytesize < length + 5
        bytes = @buffer.slice!(0, length + 5)
        [bytes.getbyte(4), bytes.byteslice(5, length)]
      end
    end
  end
end
