# frozen_string_literal: true

# What Ruby knows of its own memory: slots of its heap, by size where the Ruby tells it, what C code has asked malloc for, and
# the share of time that went into garbage collection. Reads figures that Ruby keeps anyway, in some microseconds; never
# collects garbage and never looks at an object.
require_relative "process_times"

module Paceline
  module Server
    class HeapFigures
      include ProcessTimes

      # From now on time in garbage collection counts.
      def initialize
        @began = now
        @collecting = gc_time
      end

      # The pairs of a MEMORY frame.
      def to_h
        stat = GC.stat
        {
          "slots" => stat[:heap_available_slots], "live" => stat[:heap_live_slots], "free" => stat[:heap_free_slots],
          "old" => stat[:old_objects], "pools" => pools(stat),
          "malloc" => stat[:malloc_increase_bytes], "oldmalloc" => stat[:oldmalloc_increase_bytes],
          "allocated" => stat[:total_allocated_objects], "minor" => stat[:minor_gc_count], "major" => stat[:major_gc_count],
          "gc_us" => gc_time - @collecting, "since_us" => now - @began, "yjit" => yjit
        }
      end

      private

      # SIZE:SLOTS:LIVE of each size of slots, with spaces between. Ruby 3.1 has one size in use; LIVE is empty where the Ruby
      # does not count it by size.
      def pools(stat)
        unless GC.respond_to?(:stat_heap)
          return "#{GC::INTERNAL_CONSTANTS[:RVALUE_SIZE]}:#{stat[:heap_available_slots]}:#{stat[:heap_live_slots]}"
        end
        GC.stat_heap.each_value.map do |pool|
          slots = pool[:heap_eden_slots] || 0
          "#{pool[:slot_size]}:#{slots + (pool[:heap_tomb_slots] || 0)}:#{pool[:heap_live_slots]}"
        end.join(" ")
      end

      # Bytes of compiled code and what belongs to it; empty without the compiler.
      def yjit
        return "" unless defined?(RubyVM::YJIT) && RubyVM::YJIT.enabled?
        stats = RubyVM::YJIT.runtime_stats
        stats ? (stats[:code_region_size] || stats[:inline_code_size]).to_i + stats[:yjit_alloc_size].to_i : ""
      rescue StandardError # of a Ruby whose compiler tells it otherwise
        ""
      end
    end
  end
end
