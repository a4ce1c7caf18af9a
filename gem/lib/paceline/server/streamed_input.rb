# frozen_string_literal: true

# A request body that is still coming in over the channel: BODY frames as an IO to read once. Frames that the response's writer met on the
# channel arrive by `push`. Read only by the thread that serves the request, and never past the request's own end.
require_relative "../errors"

module Paceline
  module Server
    class StreamedInput
      def initialize(channel)
        @channel = channel
        @pending = String.new(encoding: Encoding::BINARY)
        @ended = false
        @cut_off = false
        @closed = false
      end

      def push(bytes)
        @pending << bytes unless @closed
      end

      def end_of_body(cut_off)
        @ended = true
        @cut_off = cut_off
      end

      def pending_bytes
        @pending.bytesize
      end

      def read(length = nil, buffer = nil)
        raise IOError, "closed stream" if @closed
        raise ArgumentError, "negative length #{length} given" if length&.negative?
        receive while !@ended && (length.nil? || @pending.bytesize < length)
        raise BodyCutOff, "the client went away before the request's body was whole" if @cut_off && missing?(length)
        bytes = take(length)
        buffer ? buffer.replace(bytes || "") : nil
        bytes && buffer ? buffer : bytes
      end

      def readpartial(length, buffer = nil)
        raise IOError, "closed stream" if @closed
        receive while !@ended && @pending.empty?
        bytes = read([length, @pending.bytesize].min.clamp(1, length), buffer)
        bytes || raise(EOFError, "end of file reached")
      end

      def gets(separator = $/)
        return read if separator.nil?
        receive until @ended || (at = @pending.index(separator))
        at ||= @pending.index(separator)
        read(at ? at + separator.bytesize : [@pending.bytesize, 1].max)
      end

      def each
        return enum_for(:each) unless block_given?
        while (line = gets)
          yield line
        end
        self
      end

      def eof?
        receive while !@ended && @pending.empty?
        @pending.empty?
      end

      def close
        @closed = true
        @pending.clear
      end

      def closed?
        @closed
      end

      # Reads to the end of this body, so that the next frame is a new request's.
      def finish
        close
        receive until @ended
      end

      private

      def receive
        @channel.receive_body(self)
      end

      def missing?(length)
        length.nil? || @pending.bytesize < length
      end

      def take(length)
        return length.nil? || length.zero? ? String.new(encoding: Encoding::BINARY) : nil if @pending.empty?
        return @pending.slice!(0, length) if length && length < @pending.bytesize
        bytes, @pending = @pending, String.new(encoding: Encoding::BINARY)
        bytes
      end
    end
  end
end
