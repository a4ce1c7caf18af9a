# frozen_string_literal: true

# Collects garbage between requests, so that none has to wait for it. Only when the collection would come soon anyway and
# nobody else in this process works. Decides by figures that Ruby keeps at no cost; never turns the collector off.
module Paceline
  module Server
    class OutOfBandGC
      # A request that is waiting would be here by then.
      PAUSE = 0.002
      # Of what Ruby may allocate between two collections, so much is gone.
      SOON = 0.6
      NEARLY = 0.95
      # After a pause in which a request came, so many answers pass before the next.
      BUSY = 16
      private_constant :PAUSE, :SOON, :NEARLY, :BUSY

      def initialize
        @stat = {}
        @skip = 0
        remember
      end

      # Called by a thread that has just answered; `io` is where its next request comes in. The block says whether the
      # others rest.
      def run(io)
        return @skip -= 1 if @skip > 0
        remember if GC.count != @count
        return unless GC.stat(:total_allocated_objects) > @objects || GC.stat(:malloc_increase_bytes) > @bytes
        return unless yield
        return @skip = BUSY if IO.select([io], nil, nil, PAUSE) || !yield
        GC.start(full_mark: full?, immediate_sweep: true)
        remember
      end

      private

      # Bytes count from the last collection; objects are compared with the slots that it left free.
      def remember
        GC.stat(@stat)
        @count = @stat[:count]
        @objects = @stat[:total_allocated_objects] + ((@stat[:heap_available_slots] - @stat[:heap_live_slots]) * SOON)
        @bytes = @stat[:malloc_increase_bytes_limit] * SOON
      end

      # The next collection would be a full one.
      def full?
        GC.stat(@stat)
        @stat[:old_objects] > @stat[:old_objects_limit] * NEARLY ||
          @stat[:oldmalloc_increase_bytes] > @stat[:oldmalloc_increase_bytes_limit] * NEARLY
      end
    end
  end
end
