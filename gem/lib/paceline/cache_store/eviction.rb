# frozen_string_literal: true

require_relative "entry"

module Paceline
  class CacheStore
    # Makes room: first what has expired goes, then what was not used since it was last looked at, by SIEVE (Zhang et al., NSDI 2024): a hand goes
    # through the queue from the oldest entry to the newest, lets those live that were used and takes their mark, and removes the others.
    #
    # Room is counted in pages that the records fill. Where they fill all but an eighth of the file, each write removes about as much as it
    # brings, and the more the less is left: that eighth is for what LMDB keeps beside, and for pages that others still read.
    class Eviction
      # Entries that a single commit removes, if the file is not small, and entries with a mark that it passes.
      MOST_REMOVED = 256
      MOST_PASSED = 128
      SLICE = 16
      # What is removed at least, in bytes.
      LEAST = 512
      HAND = "p"
      # Bytes of a small file that are left free.
      RESERVE = 512 * 1024
      private_constant :MOST_REMOVED, :MOST_PASSED, :SLICE, :LEAST, :HAND, :RESERVE

      # Bytes that are left free of a file of this size.
      def self.reserve(size)
        [size / 8, RESERVE].max
      end

      # How many entries may come or go in a commit, but not more than `most`: each may change a page, and what two commits change is not free
      # yet when the third one comes.
      def self.most(size, most)
        (reserve(size) / Entry::PAGE / 8).clamp(1, most)
      end

      def initialize(changes, size)
        @changes = changes
        @now = changes.now
        @size = size
        @reserve = Eviction.reserve(size)
        @max_removed = Eviction.most(size, MOST_REMOVED)
        @freed = 0
        @removed = 0
        @passed = 0
      end

      # Whether marks matter yet.
      def near?
        @now.used > @size / 2
      end

      # Removes what the changes need, if anything.
      def make_room
        over = @now.used + @changes.growth - (@size - @reserve)
        return if over <= 0

        free([@changes.growth, LEAST].max * (1 + 4.0 * over / @reserve))
      end

      # Removes entries of so many bytes, but not more than a commit may. Returns how many.
      def free(bytes)
        @wanted = bytes
        expire
        sweep if hungry?
        @removed
      end

      # Removes what has expired, as much as a commit may. Returns how many.
      def expire_all
        @wanted = Float::INFINITY
        expire
        @removed
      end

      private

      def hungry?
        @freed < @wanted && @removed < @max_removed
      end

      def expire
        time = Time.now.to_f
        from = "x"
        while hungry? && (slice = listed(from, "x")).any?
          slice.each do |name, _|
            expires, number = name.unpack("xGQ>")
            return if expires > time
            return unless hungry?

            queue = "q#{name.byteslice(9, 8)}"
            queued = @changes.queued(queue, number, nil)
            queued = @now.get(queue) if queued.nil? && !@changes.records.key?(queue)
            remove(Entry.queued(number, queued)) if queued
          end
          from = "#{slice.last[0]}\0"
        end
      end

      # Twice through the queue at most: then nothing is marked any more.
      def sweep
        hand = @now.get(HAND) || "\0".b * 8
        turns = 0
        while hungry?
          slice = listed("q#{hand}", "q")
          if slice.empty?
            break if (turns += 1) > 2

            hand = "\0".b * 8
            next
          end
          slice.each do |name, value|
            hand = following(name)
            look_at(name, value)
            break unless hungry?
          end
        end
        @changes.records[HAND] = hand
      end

      def look_at(name, value)
        number = name.unpack1("xQ>")
        queued = @changes.queued(name, number, value) or return
        if queued.getbyte(0) == 1 && @passed < MOST_PASSED
          @passed += 1
          @changes.records[name] = "\0".b << queued.byteslice(1, queued.bytesize)
        else
          remove(Entry.queued(number, queued))
        end
      end

      def remove(entry)
        @changes.remove(entry)
        @freed += entry.weight
        @removed += 1
      end

      def listed(from, kind)
        @now.scan(from, SLICE).select { |name, _| name.start_with?(kind) }
      end

      def following(name)
        [name.unpack1("xQ>") + 1].pack("Q>")
      end
    end
    private_constant :Eviction
  end
end
