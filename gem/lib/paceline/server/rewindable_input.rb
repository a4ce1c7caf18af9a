# frozen_string_literal: true

# A streamed request body for Rack 2, which asks for an input that rewinds: keeps what was read, in memory up to 64 KB, then in a file.
module Paceline
  module Server
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
