# frozen_string_literal: true

# Gives room to a heap that is collected whole again and again. Ruby wants a fifth of the slots to be free after a collection. Where fewer are, the next collection
# takes old objects, too, and the heap grows only if that frees too few as well. A heap can come to rest right there: each
# full collection frees just enough, and a small one some requests later just too little. Decides by figures that Ruby keeps at no cost. Only for Rubies whose
# heap has one size of slot.
module Paceline
  module Server
    class HeapRoom
      # So many full collections for want of free slots, none of which made the heap larger by more than this part...
      IN_VAIN = 3
      LITTLE = 0.01
      # ... each of them so many collections after the one before, at most.
      SOON = 20
      # The part of the slots that is added.
      PART = 0.1
      # Objects that are made at a time.
      BATCH = 1000
      private_constant :IN_VAIN, :LITTLE, :SOON, :PART, :BATCH

      def self.wanted? = RUBY_VERSION < "3.2"

      def initialize(collector = GC)
        @collector = collector
        @count = @last = collector.count
        @slots = slots
        @in_vain = 0
      end

      # After a request. True: the heap was given room, which takes some milliseconds and happens once or twice in the life of a process.
      def check
        return false if @collector.count == @count
        @count = @collector.count
        return false unless @collector.latest_gc_info(:major_by) == :nofree
        note_full_collection
        return false if @in_vain < IN_VAIN
        grow
        true
      end

      private

      def slots = @collector.stat(:heap_available_slots)

      def note_full_collection
        @in_vain = slots > @slots * (1 + LITTLE) || @count - @last > SOON ? 0 : @in_vain + 1
        @slots = slots
        @last = @count
      end

      # Makes objects until there are more slots; the next collection leaves these free.
      def grow
        wanted = @slots + (@slots * PART).to_i
        was_off = @collector.disable # ends what is left of a collection
        made = []
        made << Array.new(BATCH) { Object.new } while slots < wanted && made.size * BATCH < wanted
        @slots = slots
        @in_vain = 0
      ensure
        @collector.enable unless was_off
      end
    end
  end
end
