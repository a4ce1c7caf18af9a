# frozen_string_literal: true

require "digest"

module Paceline
  class CacheStore
    # An entry as it lies in Records. Keys of any length are found by their SHA-256; the key itself lies with the value, so that a reader who has the
    # same hash is not taken for it. What is longer than a page lies in pieces that fill one each: then a free page is as good as any other, and
    # a file that must not grow is never too fragmented.
    #
    # | key | value |
    # | --- | --- |
    # | `e` hash | when it expires (a double; infinity: never), number (8 bytes), lengths of key and value (4 each), key, value |
    # | `e` hash piece (4 bytes, from 1) | what of this does not fit into one record |
    # | `q` number | whether it was used since the hand passed, when it expires, bytes of all pieces, hash, key |
    # | `x` expires, number | nothing: what expires, by when |
    # | `p` | the hand: number of the entry that is looked at next when there must be room |
    #
    # Numbers grow: `q` lists entries in the order in which they came.
    Entry = Struct.new(:value, :expires, :number, :size, :hash_of_key)

    class Entry
      HEAD = "GQ>NN"
      HEAD_SIZE = 24
      # What a page of LMDB holds besides its own head and the record's checksum.
      PIECE = 4076
      PAGE = 4096
      # Longer records have pages of their own.
      INLINE = 2000
      # Bytes of the other records of an entry, and of what LMDB needs for them.
      BESIDE = 150
      NEVER = Float::INFINITY

      QUEUED = "CGN"
      QUEUED_SIZE = 13
      private_constant :HEAD, :HEAD_SIZE

      class << self
        def hash_of(key)
          Digest::SHA256.digest(key).byteslice(0, 16)
        end

        # The entry of this key (a binary String) in a view of the records, be it expired or not; or nil.
        def find(now, key)
          hash = hash_of(key)
          head = now.get("e#{hash}") or return
          expires, number, key_length, length = head.unpack(HEAD)
          size = HEAD_SIZE + key_length + length
          whole = size > PIECE ? joined(now, hash, head, size) : head
          return unless key_length == key.bytesize && whole.byteslice(HEAD_SIZE, key_length) == key

          new(whole.byteslice(HEAD_SIZE + key_length, length), expires, number, size, hash)
        end

        # What is in the place of this hash, of whatever key, without its value; or nil.
        def place(now, hash)
          head = now.get("e#{hash}") or return
          expires, number, key_length, length = head.unpack(HEAD)
          new(nil, expires, number, HEAD_SIZE + key_length + length, hash)
        end

        # From a record of the queue.
        def queued(number, value)
          _, expires, size = value.unpack(QUEUED)
          new(nil, expires, number, size, value.byteslice(QUEUED_SIZE, 16))
        end

        def size_of(key, value)
          HEAD_SIZE + key.bytesize + value.bytesize
        end

        # Its records: pairs of key and value.
        def pieces(key, value, expires, number, hash)
          whole = [expires, number, key.bytesize, value.bytesize].pack(HEAD) << key << value
          return [["e#{hash}", whole]] if whole.bytesize <= PIECE

          Array.new(count(whole.bytesize)) { |n| [piece(hash, n), whole.byteslice(n * PIECE, PIECE)] }
        end

        def piece(hash, number)
          number.zero? ? "e#{hash}" : "e#{hash}#{[number].pack("N")}"
        end

        # How many records so many bytes are.
        def count(size)
          (size - 1) / PIECE + 1
        end

        private

        def joined(now, hash, head, size)
          rest = now.scan(piece(hash, 1), count(size) - 1)
          whole = rest.each_with_object(head.dup) { |(_, bytes), to| to << bytes }
          return whole if whole.bytesize == size && rest.each_with_index.all? { |(key, _), n| key == piece(hash, n + 1) }

          raise Records::Damaged, "a piece of an entry is missing"
        end
      end

      def expired?(time)
        expires <= time
      end

      def queue_key
        "q#{[number].pack("Q>")}"
      end

      # nil if it never expires.
      def expiry_key
        "x#{[expires, number].pack("GQ>")}" unless expires == NEVER
      end

      # The keys of its records but those of queue and expiry.
      def piece_keys
        Array.new(Entry.count(size)) { |n| Entry.piece(hash_of_key, n) }
      end

      # Bytes of the file that are free when it is gone.
      def weight
        full, rest = size.divmod(PIECE)
        full * PAGE + (rest > INLINE ? PAGE : rest) + BESIDE
      end
    end
    private_constant :Entry
  end
end
