# frozen_string_literal: true

# One worker thread and its channel: takes a request, runs the app, writes the response, again. Never knows how a
# response is put into frames (response.rb) or an env is made (request_env.rb).
require_relative "../errors"
require_relative "../native"
require_relative "../uninterrupted"
require_relative "forked_child"
require_relative "frames"
require_relative "request_env"
require_relative "response"

module Paceline
  module Server
    class Channel
      EMPTY = "".b.freeze
      READ_SIZE = 16_384
      LARGE_READ = 256 * 1024
      SHUT_RD = 0
      PENDING_MAX = 1024 * 1024
      WHOLE = "\0"
      F_GETFL = 3
      F_SETFL = 4
      REOPEN_TRIES = 100
      REOPEN_PAUSE = 0.05
      private_constant :EMPTY, :READ_SIZE, :LARGE_READ, :PENDING_MAX, :WHOLE, :SHUT_RD, :F_GETFL, :F_SETFL, :REOPEN_TRIES, :REOPEN_PAUSE

      # Ruby makes pipes and sockets non-blocking.
      def self.make_blocking(io)
        io.fcntl(F_SETFL, io.fcntl(F_GETFL) & ~File::NONBLOCK)
      end

      attr_reader :worker, :number, :io

      # The number of the request in hand, which each frame of its answer repeats.
      attr_reader :request

      # Seconds that a request may take before its worker is given up, or nil.
      def patience
        @worker.patience
      end

      def initialize(worker, number, io, mailbox = nil)
        @worker = worker
        @number = number
        @busy = false
        @surrendered = @cancelled = @aside = false
        @request = 0
        @input = nil
        attach(io, mailbox)
        @request_env = RequestEnv.new(self, worker.rack3)
        @response = Response.new(self)
      end

      # The thread's life: until the worker drains or the front closes the channel.
      def run
        @ended = false
        run_hooks(:before_thread_start)
        while (type = next_request)
          serve if type == Frames::REQUEST
          reopen if @io.nil? && !@worker.draining?
          @busy = false
          break if @worker.draining?
          @worker.rested(self)
        end
        @ended = true
        run_hooks(:before_thread_exit)
      rescue ProtocolError, Control::FrontGone, NoMemoryError => e
        @worker.broken(e)
      rescue SystemCallError, IOError
        @ended = true # the front closed the channel; its control socket tells the rest
      ensure
        @io&.close
        @mailbox&.close
      end

      def busy?
        @busy
      end

      # False when the app killed the thread in the middle of a request.
      def ended?
        @ended
      end

      # Called from the main thread: an idle thread sees the end of its channel, a busy one ends after its request.
      # What the front has sent already is still read.
      def drain
        @io.shutdown(SHUT_RD) unless @busy || IO.select(@alone, nil, nil, 0)
      rescue SystemCallError, IOError
        nil
      end

      # Ends the application's code for the request in hand, so that its `ensure` and the body's `close` run before the process is killed.
      def interrupt(thread)
        return unless @serving
        # Of a stream or a hijack it is no news that it is cut off.
        error = @surrendered || @response.begun? ? ClientGone : RequestInterrupted
        thread.raise(error, "the worker has to end, and this request with it")
      rescue ThreadError
        nil # it has ended
      end

      # In a child that the application has forked: nothing is read from here and nothing written any more.
      def let_go
        @cancelled = true
        @buffer = EMPTY
        @fd = -1
        @mailbox&.close
        @io&.close
      end

      # Whether no request lies here; the front wakes the thread from now on.
      def resting?
        @buffer.empty? && (@mailbox.nil? || @mailbox.sleep(fd))
      end

      # The next frame between two requests: one of the mailbox, or of the socket, where the thread sleeps.
      def next_request
        @posted = false
        return next_frame if @mailbox.nil?
        return wake_by(next_frame) unless @buffer.empty?
        frame = @mailbox.take
        return wake_by(next_frame) if frame.nil? && @mailbox.sleep(fd)
        frame ||= @mailbox.take
        return Frames::WAKE if frame.nil? # it was taken back meanwhile
        @busy = @posted = true
        @frame = frame
        Frames::REQUEST
      end

      # What the front has woken the thread with goes before all that lies in the mailbox.
      def wake_by(type)
        @mailbox.woken if type == Frames::REQUEST || type == Frames::WAKE
        type
      end

      # Reads one whole frame and answers its type; nil at the end of the channel. The frame stays until the next.
      def next_frame
        data = @buffer
        data = receive_bytes(READ_SIZE) if data.empty?
        @busy = true
        data << receive_bytes(READ_SIZE) while data.bytesize < 5
        need = data.unpack1("N") + 5
        raise ProtocolError, "frame of #{need - 5} bytes" if need > Frames::MAX_PAYLOAD
        data << receive_bytes((need - data.bytesize).clamp(1, LARGE_READ)) while data.bytesize < need
        if data.bytesize == need
          @buffer = EMPTY
          @frame = data
        else
          @buffer = data.byteslice(need, data.bytesize)
          @frame = data.byteslice(0, need)
        end
        @frame.getbyte(4)
      rescue EOFError, Errno::ECONNRESET
        nil
      end

      def payload
        @frame.byteslice(5, @frame.bytesize)
      end

      # True when something of the front's lies here unread.
      def readable?
        !@buffer.empty? || !IO.select(@alone, nil, nil, 0).nil?
      end

      # All of it. Raises Errno::*. What another thread raises here (Timeout) never comes after half a frame: nobody would know where the next
      # one begins.
      def write(bytes)
        @written = true
        return Native.send_all(fd, bytes) if Native
        check_ours
        Thread.handle_interrupt(UNINTERRUPTED) do
          size = bytes.bytesize
          written = @io.syswrite(bytes)
          @io.write(bytes.byteslice(written, size)) unless written == size
        end
      end

      # The native part has sent a frame by itself.
      def note_written
        @written = true
      end

      # Where frames of this answer may be left: in the mailbox, if the request came through it. Nil: by the socket, as all frames after one
      # that went there.
      def mailbox
        @mailbox if @posted && !@written
      end

      # A whole answer, or what follows one: in the mailbox, if it has room.
      def leave(frame)
        mailbox&.put(fd, frame) || write(frame)
      end

      # Leaves an answer whose bytes lie in two pieces.
      def leave_both(head, body)
        mailbox&.put(fd, head, body) || write_slice(head, body, 0, body.bytesize)
      end

      # All of HEAD, and behind it SIZE of the bytes from AT on. Raises Errno::*.
      def write_slice(head, bytes, at, size)
        @written = true
        return Native.send_slice(fd, head, bytes, at, size) if Native
        check_ours
        Thread.handle_interrupt(UNINTERRUPTED) { @io.write(head, bytes.byteslice(at, size)) }
      end

      # Whether some frames can be written without waiting for the front.
      def writable?
        !IO.select(nil, @alone, nil, 0).nil?
      end

      # The descriptor, for the native part to write to.
      def fd
        check_ours
        @fd
      end

      # Sends the last frame, and gives the socket away to the app; when the app has returned this thread goes on with a new one. A request of
      # the mailbox may have come past what the front has sent for earlier ones: that is not for the app.
      def surrender(frame)
        Thread.handle_interrupt(UNINTERRUPTED) { receive } while @posted && !@cancelled && readable?
        write(frame)
        given = @io
        @surrendered = true
        detach
        given
      end

      def surrendered?
        @surrendered
      end

      # Full hijack of request `number`: from here on the app speaks to the client itself.
      def hijack(number)
        raise IOError, "this request has ended" unless number == @request && @serving
        raise IOError, "this request was hijacked already" if @surrendered
        raise IOError, "the response has begun: a request can only be hijacked before that" unless @response.renounce
        surrender(Frames.answer(Frames::HIJACK, number))
      end

      # The request in hand uses no more processor time: another thread may take this one's place in the count. True if the
      # front was told.
      def step_aside
        return false if @aside || !@serving || @surrendered || @response.begun?
        @aside = true
        write(Frames.answer(Frames::ASIDE, @request))
        true
      end

      def early_hints(number, headers)
        @response.early_hints(headers) if number == @request
      end

      # True when the front has said that the client is gone. Looks, but never waits.
      def cancelled?
        return true if @surrendered # what comes now is for the next request
        while !@cancelled && readable? && (@input.nil? || @input.pending_bytes < PENDING_MAX)
          Thread.handle_interrupt(UNINTERRUPTED) { receive }
        end
        @cancelled
      end

      # Waits for the next frame of this request's body.
      def receive_body(input)
        raise IOError, "this request's body belongs to the hijacker" unless input.equal?(@input) && !@surrendered
        # What another thread raises here comes before a frame, or after it.
        IO.select(@alone) if @buffer.empty?
        Thread.handle_interrupt(UNINTERRUPTED) { receive }
      end

      private

      # The socket is the other process's, or the next request's.
      def check_ours
        raise ClientGone, "the connection of this request was given away" if @surrendered
        raise ClientGone, "this process was forked from the one that answers the request" if ForkedChild.here?
      end

      # The socket is the app's now.
      def detach
        @mailbox&.close
        @io = @mailbox = nil
        @fd = -1
        @buffer = EMPTY
      end

      # The app has returned, and the thread can take a request again. Where descriptors are used up it tries again for some seconds; then the
      # worker gives up: the front does not know whether this thread is still in the app, and would wait for it for ever.
      def reopen
        failures = 0
        begin
          ours, mailbox = @worker.open_channel(@number)
        rescue SystemCallError => e
          return if @worker.draining?
          @worker.broken(e) if (failures += 1) > REOPEN_TRIES
          sleep REOPEN_PAUSE
          retry
        end
        attach(ours, mailbox)
      end

      # A blocking socket: one system call for each read, none to ask first.
      def attach(io, mailbox)
        @mailbox = mailbox
        @buffer = EMPTY
        @frame = EMPTY
        @io = io
        @fd = io.fileno
        @alone = [io]
        Channel.make_blocking(io)
      end

      def receive_bytes(size)
        return @io.readpartial(size) unless Native
        Native.receive(@fd, size) || raise(EOFError, "end of file reached")
      end

      def serve
        @surrendered = @cancelled = @written = false
        @serving = true
        @request = Frames.request_number(@frame)
        env = @request_env.build(@frame)
        @input = @request_env.streamed
        problem = @request_env.problem
        problem ? @response.refuse(env, problem) : @response.answer(@worker.app, env)
        @request_env.finish
        @input = nil
        @worker.io_bound_ended if @aside
        @serving = @surrendered = @aside = false
      end

      # Takes a frame that belongs to the request in hand.
      def receive
        case (type = next_frame)
        when Frames::BODY then @input&.push(payload)
        when Frames::BODY_END then @input&.end_of_body(payload != WHOLE)
        when Frames::CANCEL then @cancelled = true if Frames.cancelled_number(@frame) == @request # it may come too late, and mean an earlier one
        when Frames::WAKE then nil
        when nil
          @cancelled = true
          @input&.end_of_body(true)
        else raise ProtocolError, "frame of type #{type} while a request is in hand"
        end
      end

      def run_hooks(name)
        @worker.hooks&.run_hooks_aside(name)
      end
    end
  end
end
