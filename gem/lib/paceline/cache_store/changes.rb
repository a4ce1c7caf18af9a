# frozen_string_literal: true

require_relative "entry"

module Paceline
  class CacheStore
    # What is committed at once: entries that come and go, planned on a view of the records by the process that has the file exclusively.
    class Changes
      # By their keys, for Records#commit.
      attr_reader :records
      # Bytes by which the entries of it grow.
      attr_reader :growth

      attr_reader :now

      def initialize(now)
        @now = now
        @records = {}
        @growth = 0
        @kept = {}
      end

      # Puts an entry in the place of what was there.
      def put(key, value, expires)
        hash = Entry.hash_of(key)
        old = Entry.place(@now, hash)
        new = Entry.new(nil, expires, old ? old.number : next_number, Entry.size_of(key, value), hash)
        drop_rest(old, new) if old
        Entry.pieces(key, value, expires, new.number, hash).each { |name, bytes| @records[name] = bytes }
        # What is written again was of use.
        @records[new.queue_key] = [old ? 1 : 0, expires, new.size].pack(Entry::QUEUED) << hash << key
        expiry = new.expiry_key
        @records[expiry] = "" if expiry
        @kept[new.number] = true
        @growth += new.weight - (old ? old.weight : 0)
      end

      def remove(entry)
        entry.piece_keys.each { |name| @records[name] = nil }
        @records[entry.queue_key] = nil
        expiry = entry.expiry_key
        @records[expiry] = nil if expiry
        @growth -= entry.weight
      end

      # Notes that these, by their numbers, were used.
      def used(numbers)
        numbers.each do |number|
          name = "q#{[number].pack("Q>")}"
          queued = @records.fetch(name) { @now.get(name) }
          @records[name] = "\1".b << queued.byteslice(1, queued.bytesize) if queued&.getbyte(0) == 0
        end
      end

      # The record of a queue as it will be: nil if it goes, false if its entry is one of these.
      def queued(name, number, value)
        !@kept[number] && @records.fetch(name, value)
      end

      private

      # What was longer than it is now, and when it was to expire.
      def drop_rest(old, new)
        (Entry.count(new.size)...Entry.count(old.size)).each { |n| @records[Entry.piece(old.hash_of_key, n)] = nil }
        expiry = old.expiry_key
        @records[expiry] = nil if expiry && old.expires != new.expires
      end

      # By the clock. Who comes in the same microsecond, or after the clock was put back, takes the next that is free.
      def next_number
        number = Process.clock_gettime(Process::CLOCK_REALTIME, :microsecond)
        number += 1 while @kept[number] || @now.get("q#{[number].pack("Q>")}")
        number
      end
    end
    private_constant :Changes
  end
end
