# frozen_string_literal: true

# The pieces of a streaming body, on their way into frames. They wait for company: for LIMIT bytes, for the end of the body, or for
# DELAY. So a body of a thousand small strings is one write, and one that trickles is not held back. A body that ends before anything
# was sent was never a stream: its length is known, and an exception on the way is a page and no torn response.
require_relative "../errors"
require_relative "../native"
require_relative "frames"

module Paceline
  module Server
    class Gatherer
      # Bytes that are sent without waiting for more.
      LIMIT = 64 * 1024

      # Seconds after which what there is goes out, even if the app is doing something else.
      DELAY = 0.001

      # So many flushes go out at once although they follow each other within DELAY. Those after them wait for company as well.
      FLUSHES = 16

      NONE = "".b.freeze
      private_constant :NONE

      # HEAD is the encoded HEAD frame of request NUMBER; IMMEDIATE bodies (event streams) wait for nothing.
      def initialize(channel, number, head, immediate:)
        @channel = channel
        @number = number
        @head = head
        @limit = immediate ? 1 : LIMIT
        @lock = Mutex.new
        @pending = String.new(encoding: Encoding::BINARY)
        @watched = @ended = false
        @due = nil # when what is pending has waited long enough
        @flushed_at = 0.0
        @flushes = FLUSHES
        @count = 0
      end

      # Pieces so far.
      attr_reader :count

      # Bytes that were gathered and not sent.
      attr_reader :pending

      # False as long as nothing but the head would be lost.
      def sent?
        @head.nil?
      end

      # All that the body's `each` yields.
      def add_all(body)
        return @count += Native.gather(body, self, @limit) if Native
        body.each { |part| add(part.to_s) }
      end

      # One piece; answers its size. Raises ClientGone.
      def add(bytes)
        size = bytes.bytesize
        return 0 if size.zero?
        not_ended
        @count += 1
        begin_pending if @pending.empty?
        enough = @lock.synchronize { (@pending << (bytes.ascii_only? ? bytes : bytes.b)).bytesize >= @limit }
        full if enough
        size
      end

      # Sends what there is: at once, unless that is asked for after each of many pieces that come without a pause. Raises ClientGone.
      def flush
        full unless hurried?
      end

      # There is enough for a write.
      def full
        not_ended
        raise ClientGone, "the client is gone" if @channel.cancelled?
        @lock.synchronize { send_pending }
      rescue SystemCallError
        raise ClientGone, "the front is gone"
      end

      # The first piece of the next write is here.
      def begin_pending
        raise ClientGone, "the client is gone" if sent? && @channel.cancelled?
        return if @limit == 1
        watched = @lock.synchronize do
          @due = now + DELAY
          @watched.tap { @watched = true }
        end
        @channel.worker.flusher.watch(self) unless watched
      end

      # Called by the flusher. Answers in how many seconds it should look again; nil when there is nothing more to do for now.
      def flush_late
        @lock.synchronize do
          return @watched = nil if @ended || @due.nil?
          wait = @due - now
          return wait if wait.positive?
          return DELAY if @pending.empty? # it is about to be put there
          # The front takes no more for now. Nobody else's pieces may wait for that.
          return DELAY * 20 unless @channel.writable?
          send_pending
          @watched = nil
        end
      rescue SystemCallError, IOError
        nil # the app learns it at its next write
      end

      # Nothing is left for the flusher.
      def ended?
        @ended
      end

      # No piece comes any more; the flusher sends nothing any more.
      def finish
        @lock.synchronize { @ended = true }
      end

      # Ends it unless something was sent already. True if it has ended now.
      def finish_unsent
        @lock.synchronize { !sent? && @ended = true }
      end

      # What is left, as frames, with TRAILER (END or ABORT) behind it.
      def conclude(trailer)
        @channel.write(take << trailer)
      end

      private

      # Whether FLUSHES flushes came without a pause before this one: what is pending is sent by the flusher then.
      def hurried?
        last, @flushed_at = @flushed_at, now
        @flushes = FLUSHES if @flushed_at - last > DELAY
        return @limit > 1 if @flushes.zero?
        @flushes -= 1
        false
      end

      # An app may keep the stream of a response that is complete; by now the channel may be another request's.
      def not_ended
        raise ClientGone, "this response has ended" if @ended
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end

      def send_pending
        @channel.write(take) unless @pending.empty?
      end

      # The frames of what is pending. The native part may be about to append to @pending, so it is replaced and never emptied.
      def take
        gathered = @pending
        @pending = String.new(encoding: Encoding::BINARY)
        @due = nil
        frames = @head || String.new(encoding: Encoding::BINARY)
        @head = nil
        Frames.each_chunk(gathered) { |size, bytes| frames << Frames.chunk_head(@number, size) << bytes }
        frames
      end
    end
  end
end
