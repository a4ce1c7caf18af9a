# frozen_string_literal: true

require "digest"
require_relative "errors"
require_relative "record"
require_relative "serializers"

module Paceline
  module Session
    # Sessions by their public ids, in a file (FileBackend) or in Redis (RedisBackend): what is found, what a request has changed in it, how
    # long it lasts. The id itself is never kept, only its SHA-256.
    class Store
      # Seconds that a session lasts after its last use if nothing is said.
      DEFAULT_IDLE = 30 * 24 * 3600
      # Bytes that a session may have if nothing is said.
      MAX_SIZE = 1024 * 1024
      # A session that is used is written for that alone when so large a part of its time has gone by: one in this many.
      STEPS = 16
      # Milliseconds that an expired session is kept for those who had it in hand when it expired.
      GRACE = 60_000
      # What `initialize` takes.
      OPTIONS = %i[store idle lifetime serializer max_size sync trust prefix redis clock].freeze

      # `store`: the path of a file, or `redis://`, `rediss://` or `unix://` (Valkey's `valkey://` and `valkeys://` as well).
      # `idle`: seconds that a session lasts after its last use; default: `expire_after`, else 30 days. `lifetime`: seconds that it lasts at most,
      # however much it is used; default: no bound.
      # `serializer`: `:marshal`, `:json`, or an object with `dump` and `load`, called for each value; default: `:marshal` in a file, `:json` in Redis.
      # `max_size`: bytes that a session may have; default: 1 MiB.
      # In a file: `sync`: whether each write waits for the disk (default false), `trust`: whether Marshal data is loaded from a file that belongs to
      # somebody else or that everybody may write to (default false).
      # In Redis: `prefix` of the keys (default `paceline:session:`), `redis`: more options for Redis.new.
      # `clock`: what tells the time in seconds when it is called; for tests.
      def initialize(store:, idle: nil, lifetime: nil, serializer: nil, max_size: MAX_SIZE, sync: false, trust: false, prefix: nil, redis: nil, clock: nil)
        @idle = milliseconds(:idle, idle)
        @lifetime = milliseconds(:lifetime, lifetime)
        raise ArgumentError, "max_size: must be a number of bytes, not #{max_size.inspect}" unless max_size.is_a?(Integer) && max_size.positive?

        @clock = clock
        if store.to_s.include?("://")
          require_relative "redis_backend"
          @serializer = Serializers.named(serializer || :json)
          @backend = RedisBackend.new(store.to_s, max_size: max_size, prefix: prefix, options: redis)
        else
          raise ArgumentError, "store: must be the path of a file or the URL of a Redis (redis://…)" if store.to_s.empty?

          require_relative "file_backend"
          @serializer = Serializers.named(serializer || :marshal)
          @backend = FileBackend.new(store.to_s, max_size: max_size, sync: sync, trust: trust || !@serializer.code?)
        end
      end

      # The Record of a session that has not expired, or nil. Writes nothing.
      def find(id)
        record = @backend.read(key(id)) or return

        record if record.format == @serializer.mark && record.expires > now
      end

      # The values of a Record by name.
      def values(record)
        record.fields.transform_values { |bytes| @serializer.load(bytes) }
      end

      # Keeps a new session with these values. Returns its Record. `expire_after`: seconds, besides `idle`.
      def create(id, values, expire_after: nil)
        begin_with(id, changes(Record.none, values), now, expire_after)
      end

      # Applies to what is kept now what `values` has changed since `record` was found. Returns false if the session is gone. Writes nothing if nothing
      # has changed and the session is not near the end of a step of its time.
      def update(id, record, values, expire_after: nil)
        changes = changes(record, values)
        expires = due(record, expire_after)
        return true if changes.empty? && expires.nil?

        @backend.update(key(id), record, changes, expires, now)
      end

      # Takes a session away, and returns what was kept of it.
      def take(id)
        @backend.take(key(id))
      end

      # Keeps under a new id what was taken from the old one, with what `values` has changed since `record` was found. If the session was gone already, only
      # what has changed is kept. Returns the new Record, or false if that is nothing.
      def renew(id, record, taken, values, expire_after: nil)
        changes = changes(record, values)
        return begin_with(id, taken.changed(changes), taken.created, expire_after) if taken

        kept = changes.compact
        kept.empty? ? false : begin_with(id, kept, now, expire_after)
      end

      # Takes away what has expired. Returns how many those were.
      def sweep
        @backend.sweep(now)
      end

      private

      def key(id)
        Digest::SHA256.digest(id)
      end

      def now
        @clock ? (@clock.call.to_f * 1000).to_i : Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond)
      end

      def begin_with(id, fields, created, expire_after)
        fields.compact!
        TooLarge.check(fields, @backend.max_size)
        record = Record.new(@serializer.mark, created, expiry(created, time(expire_after)), fields)
        @backend.create(key(id), record, now)
        record
      end

      # What differs, by the bytes: also what was changed in place.
      def changes(record, values)
        changes = {}
        known = record.fields
        values.each do |name, value|
          bytes = @serializer.dump(name, value)
          was = known[name]
          changes[name] = bytes unless was == bytes || (was && same?(name, was, bytes))
        end
        known.each_key { |name| changes[name] = nil unless values.key?(name) } if known.size + changes.size > values.size
        changes
      end

      # What was written in another way is no change, or it would undo somebody else's.
      def same?(name, was, bytes)
        @serializer.dump(name, @serializer.load(was)) == bytes
      end

      # When it should expire now, if that is a step away from what is kept.
      def due(record, expire_after)
        time = time(expire_after)
        expires = expiry(record.created, time)
        expires if (expires - record.expires).abs * STEPS >= time
      end

      def expiry(created, time)
        expires = now + time
        @lifetime ? [expires, created + @lifetime].min : expires
      end

      # Milliseconds that it lasts after its last use.
      def time(expire_after)
        expire_after = milliseconds(:expire_after, expire_after)
        [expire_after, @idle].compact.min || (DEFAULT_IDLE * 1000)
      end

      def milliseconds(name, seconds)
        return if seconds.nil?

        # A Duration of Rails is no Numeric.
        milliseconds = seconds.respond_to?(:to_f) && !seconds.is_a?(String) ? (seconds.to_f * 1000).to_i : 0
        raise ArgumentError, "#{name}: must be seconds, more than 0, not #{seconds.inspect}" unless milliseconds.positive?

        milliseconds
      end
    end
  end
end
