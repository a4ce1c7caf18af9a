# frozen_string_literal: true

# Collects garbage between requests, so that none has to wait for it. Only when the collection would come soon anyway and
# nobody else in this process works. Decides by figures that Ruby keeps at no cost; never turns the collector off.
module Paceline
  class OutOfBandGC
    # A request that is waiting would be here by then.
    PAUSE = 0.002
    # Of what Ruby may allocate between two collections, so much is gone.
    SOON = 0.6
    private_constant :PAUSE, :SOON

    def initialize
      @stat = {}
      remember
    end

    # Called by a thread that has just answered; `io` is where its next request comes in. The block says whether the
    # others rest.
    def run(io)
      GC.stat(@stat)
      remember if @stat[:count] != @count
      return unless (kind = due)
      return if !yield || IO.select([io], nil, nil, PAUSE) || !yield
      GC.start(full_mark: kind == :major, immediate_sweep: true)
      remember
    end

    private

    # Malloc counts from the last collection; free slots are compared with those that it left.
    def due
      return :major if @stat[:old_objects] > @stat[:old_objects_limit] * 0.97 ||
                       @stat[:oldmalloc_increase_bytes] > @stat[:oldmalloc_increase_bytes_limit] * 0.9
      :minor if @stat[:malloc_increase_bytes] > @stat[:malloc_increase_bytes_limit] * SOON ||
                @stat[:total_allocated_objects] - @allocated > @room * SOON
    end

    def remember
      GC.stat(@stat)
      @count = @stat[:count]
      @allocated = @stat[:total_allocated_objects]
      @room = @stat[:heap_available_slots] - @stat[:heap_live_slots]
    end
  end
end
