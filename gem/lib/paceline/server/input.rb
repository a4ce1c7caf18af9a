# frozen_string_literal: true

# Request bodies that are not in memory: spooled to a file by the front, or streaming in over the channel.
# They are read only by the thread that serves the request, and never past the request's own end.
require_relative "../errors"
require_relative "frames"

module Paceline
  module Server
    # A file holding the whole body. The front made it and removes it.
    class SpooledInput < File
      def self.open(path)
        raise ProtocolError, "a spooled body without a path" if path.nil?
        new(path, "rb")
      end

      def finish
        close unless closed?
      end
    end

    # BODY frames as an IO to read once. Frames that the response's writer met on the channel arrive by `push`.
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

    # Rack 2 asks for an input that rewinds: keeps what was read, in memory up to 64 KB, then in a file.
    class RewindableInput
      MEMORY = 64 * 1024
      private_constant :MEMORY

      def initialize(source)
        @source = source
        @kept = StringIO.new(String.new(encoding: Encoding::BINARY))
        @in_memory = true
      end

      def read(*arguments)
        fill(arguments.first)
        @kept.read(*arguments)
      end

      def gets
        fill(nil)
        @kept.gets
      end

      def each(&block)
        fill(nil)
        @kept.each(&block)
      end

      def rewind
        @kept.rewind
      end

      def size
        fill(nil)
        @kept.size
      end

      def eof?
        fill(1)
        @kept.eof?
      end

      def close; end

      def finish
        @source.finish
        @in_memory ? @kept.close : @kept.close!
      end

      private

      # Takes from the source until `length` bytes (nil: all) lie ahead of the reading position. Who is interrupted while he waits (Timeout) may
      # read again, and nothing is missing.
      def fill(length)
        return if @whole
        position = @kept.pos
        ahead = @kept.size - position
        until length && ahead >= length
          @source.eof? # waits
          ahead += Thread.handle_interrupt(UNINTERRUPTED) { keep(@source.readpartial(MEMORY)) }
        end
      rescue EOFError
        @whole = true
      ensure
        @kept.pos = position if position
      end

      def keep(bytes)
        to_file if @in_memory && @kept.size + bytes.bytesize > MEMORY
        @kept.seek(0, IO::SEEK_END)
        @kept.write(bytes)
      end

      def to_file
        require "tempfile"
        file = Tempfile.new("paceline-body", binmode: true)
        file.unlink
        file.write(@kept.string)
        @kept = file
        @in_memory = false
      end
    end
  end
end
