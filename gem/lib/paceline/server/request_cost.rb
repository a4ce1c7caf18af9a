# frozen_string_literal: true

# What one request cost, as the front is told with its response. Knows the process's figures before and after; never the request.
require_relative "../spans"
require_relative "frames"
require_relative "outbound_calls"
require_relative "process_times"
require_relative "request_parts"

module Paceline
  module Server
    class RequestCost
      include ProcessTimes

      # `patience`: seconds that a request may take, or nil.
      def initialize(patience = nil)
        @outbound = OutboundCalls.new(patience)
        @counted = Frames::Counters.new(0, 0, 0, 0, 0, "")
        @gc = @allocated = 0
      end

      # The app is about to be called.
      def start(env)
        Thread.current[:paceline_spans] = nil
        @counted.chunks = 0
        @outbound.start(env)
        RequestParts.start(env)
        @gc = gc_time
        @allocated = GC.stat(:total_allocated_objects)
        @counted.started = now
      end

      # The figures so far, for a body of CHUNKS pieces.
      def stop(chunks)
        @counted.finished = now
        @counted.chunks = chunks
        @counted.allocated = GC.stat(:total_allocated_objects) - @allocated
        @counted.gc = gc_time - @gc
        spans = Thread.current[:paceline_spans]
        outbound = @outbound.spans
        spans = spans ? spans.merge(outbound) : outbound if outbound
        @counted.spans = spans ? Frames.fields(*spans.flat_map { |name, (total, count)| [name, total.to_i, count] }) : ""
        @counted
      end
    end
  end
end
