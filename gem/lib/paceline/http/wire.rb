# frozen_string_literal: true

# One connection as Net::HTTP sees it (Net::BufferedIO's interface), to an upstream or to the front's socket. It holds a request's head back until
# its body is there, so that both leave in one write; and it knows what a pool has to know of it. It never opens a connection.
require "net/http"

module Paceline
  module HTTP
    class Wire < Net::BufferedIO
      PIECE = 16 * 1024
      private_constant :PIECE

      # Where it leads: wires with the same key are as good as each other.
      attr_reader :key
      # When it was last used (monotonic s), and for how long its other end says that it will keep it (s), if it does.
      attr_reader :idle_since, :kept_for
      # For how long it was idle before the request that is under way (s).
      attr_reader :idle_before
      # Monotonic seconds after which nobody waits any longer; or nil.
      attr_writer :deadline

      def initialize(io, key)
        super(io)
        @key = key
        @in = String.new(capacity: PIECE, encoding: Encoding::BINARY)
        @at = 0
        @held = String.new(encoding: Encoding::BINARY)
        @taken = 0
        @used = @received = @ended = @busy = @holding = false
        @idle_since = HTTP.now
        @pid = Process.pid
      end

      # Whoever has it now waits so long (s; nil: for ever).
      def lend(read_timeout, write_timeout, continue_timeout)
        @read_timeout = read_timeout
        @write_timeout = write_timeout
        @continue_timeout = continue_timeout
        self
      end

      # A request begins. `streamed`: its body comes from somewhere that may keep it waiting, and its head doesn't wait for it.
      def begin(streamed: false)
        @idle_before = idle
        @busy = true
        @received = false
        @holding = !streamed
        @piece_end = nil
      end

      # For how long it has been idle (s).
      def idle
        HTTP.now - @idle_since
      end

      # The response is complete.
      def rest(response)
        @busy = false
        @used = true
        @idle_since = HTTP.now
        hint = response["keep-alive"]
        @kept_for = hint && hint[/timeout=(\d{1,5})/i, 1]&.to_i
      end

      # Whether a request was answered on it before this one.
      def used?
        @used
      end

      # Whether a request is under way whose response is not complete.
      def busy?
        @busy
      end

      # Whether a byte has come since the request began.
      def received?
        @received
      end

      # Whether the next request may take it: nothing is under way, and nothing has come that nobody asked for.
      def clean?
        !@busy && !@ended && @at == @in.bytesize && !@io.closed?
      end

      # Whether it was made before a fork, by another process that goes on with it.
      def foreign?
        @pid != Process.pid
      end

      # Whether its other end has closed it, or has sent something unasked. What TLS says to itself in between is taken notice of.
      def stale?
        # A look that costs no exception: mostly there is nothing.
        return false unless @io.to_io.wait_readable(0)

        @io.read_nonblock(1, exception: false) != :wait_readable
      rescue SystemCallError, IOError, OpenSSL::SSL::SSLError
        true
      end

      # Somebody has left this response's body half-way, and Net::HTTP will read what remains of it as if it were the whole. There it ends with the
      # connection, which the server closes; here it ends where the piece ends that was being read.
      def leave(response)
        return if @piece_end.nil? || (response.chunked? && @taken == @piece_end + 2)

        @ended = true
        @left = [@piece_end - @taken, 0].max
        there = @in.bytesize - @at
        @in = @in.byteslice(0, @at + @left) if there > @left
        @left -= [there, @left].min
      end

      # Gives the descriptor back, and says nothing to the other end: it is another process that speaks with it.
      def abandon
        @io.to_io.close
      end

      # A response as it came, or what is to be made of it.
      def judge(response)
        response
      end

      def eof?
        @at == @in.bytesize && super
      end

      # Yields the bytes of the next head, if it has come as a whole. They are taken if the block returns something, which is returned.
      def head
        fill if @at == @in.bytesize
        stop = @in.index("\r\n\r\n", @at) or return
        found = yield @in.byteslice(@at, stop + 4 - @at)
        @at = stop + 4 if found
        found
      end

      def read(length, dest = nil, ignore_eof = false)
        left = length
        # Only parts of a body have a destination.
        dest ? @piece_end = @taken + length : dest = "".b
        begin
          while (there = @in.bytesize - @at) < left
            if there.positive?
              left -= there
              dest << take(there)
            end
            fill
          end
          dest << take(left)
        rescue EOFError
          raise unless ignore_eof
        end
        dest
      end

      def read_all(dest = "".b)
        begin
          while true
            there = @in.bytesize - @at
            dest << take(there) if there.positive?
            fill
          end
        rescue EOFError
          nil
        end
        dest
      end

      def readuntil(terminator, ignore_eof = false)
        looked = 0
        until (found = @in.index(terminator, @at + looked))
          looked = [@in.bytesize - @at - terminator.bytesize + 1, 0].max
          fill
        end
        take(found + terminator.bytesize - @at)
      rescue EOFError
        raise unless ignore_eof

        take(@in.bytesize - @at)
      end

      def write(*strings)
        # Who waits for `100 Continue` looks at the socket itself.
        holding, @holding = @holding && !@continue_timeout, false
        length = strings.sum do |string|
          string = string.b unless string.encoding == Encoding::BINARY || string.ascii_only?
          if @held.bytesize + string.bytesize > PIECE
            flush
            put(string)
          else
            @held << string
          end
          string.bytesize
        end
        flush unless holding
        length
      end
      alias << write

      def writeline(string)
        write("#{string}\r\n")
      end

      # What was held back leaves.
      def flush
        return if @held.empty?

        held = @held
        @held = String.new(encoding: Encoding::BINARY)
        put(held)
      end

      private

      def take(length)
        @taken += length
        if @at.zero? && length == @in.bytesize
          taken = @in
          @in = String.new(capacity: PIECE, encoding: Encoding::BINARY)
        else
          taken = @in.byteslice(@at, length)
          @at += length
        end
        taken
      end

      def fill
        unless @held.empty?
          begin
            flush
          rescue Errno::EPIPE # there may be an answer that says why
            @held.clear
          end
          # Nothing can be there yet; but TLS may have read ahead.
          await(:read, patience) if @io.is_a?(BasicSocket)
        end
        raise EOFError, "end of file reached" if @left&.zero?

        into = nil
        if @at == @in.bytesize
          into = @in.clear
          @at = 0
        end
        while true
          case got = @io.read_nonblock(@left ? [PIECE, @left].min : PIECE, into, exception: false)
          when :wait_readable then await(:read, patience)
          when :wait_writable then await(:write, patience)
          when nil
            @ended = true
            raise EOFError, "end of file reached"
          else
            @received = true
            @left -= got.bytesize if @left
            @in << got unless got.equal?(into)
            return
          end
        end
      end

      # For how long the next byte is waited for.
      def patience
        @read_timeout
      end

      def put(string)
        until string.empty?
          case sent = @io.write_nonblock(string, exception: false)
          when :wait_writable then await(:write, @write_timeout, Net::WriteTimeout)
          when :wait_readable then await(:read, @write_timeout, Net::WriteTimeout)
          else string = sent == string.bytesize ? "" : string.byteslice(sent..)
          end
        end
      end

      def await(event, timeout, error = Net::ReadTimeout)
        io = @io.to_io
        limited = @deadline && (left = @deadline - HTTP.now) && (timeout.nil? || left < timeout)
        timeout = left if limited
        ready = if timeout&.negative? then nil
                elsif (together = Together.current) then together.wait(io, event, timeout)
                elsif event == :read then io.wait_readable(timeout)
                else io.wait_writable(timeout)
                end
        return if ready
        raise DeadlineExceeded, io if limited

        raise error, io
      end
    end
  end
end
