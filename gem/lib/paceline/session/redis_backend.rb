# frozen_string_literal: true

require "digest"
require_relative "connections"

module Paceline
  module Session
    # Sessions in Redis or Valkey, for several machines: a hash for each, with a field for each value, so that what one request changes leaves the rest to
    # others. What decides by what is there is a script, which Redis runs alone. Redis itself removes what has expired.
    class RedisBackend
      # The field of format and times; names of values have a `.` in front.
      META = "="
      # KEYS: the session. ARGV: 1 if it is new; bytes allowed, or 0 if it gets no larger; milliseconds until it goes, or 0; number of fields to
      # set, those with their values, fields to remove. Returns 1, 0 if it is gone, or -1 if it would be too large.
      SAVE = <<~LUA
        local key, most, time, sets = KEYS[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
        if ARGV[1] ~= '1' then
          if redis.call('EXISTS', key) == 0 then return 0 end
          if most > 0 then
            local sizes, all = {}, redis.call('HGETALL', key)
            for i = 1, #all, 2 do sizes[all[i]] = #all[i] + #all[i + 1] - 1 end
            for i = 5, 4 + sets * 2, 2 do sizes[ARGV[i]] = #ARGV[i] + #ARGV[i + 1] - 1 end
            for i = 5 + sets * 2, #ARGV do sizes[ARGV[i]] = nil end
            sizes['='] = nil
            local size = 0
            for _, bytes in pairs(sizes) do size = size + bytes end
            if size > most then return -1 end
          end
        end
        for i = 5, 4 + sets * 2, 2 do redis.call('HSET', key, ARGV[i], ARGV[i + 1]) end
        for i = 5 + sets * 2, #ARGV do redis.call('HDEL', key, ARGV[i]) end
        if time > 0 then redis.call('PEXPIRE', key, ARGV[3]) end
        return 1
      LUA
      TAKE = <<~LUA
        local all = redis.call('HGETALL', KEYS[1])
        redis.call('DEL', KEYS[1])
        return all
      LUA
      PREFIX = "paceline:session:"
      # What the client raises that is no mistake of ours.
      FAILURES = %w[Redis::BaseError RedisClient::Error OpenSSL::SSL::SSLError SocketError SystemCallError].freeze
      private_constant :META, :SAVE, :TAKE, :PREFIX, :FAILURES

      attr_reader :max_size

      # Raises Unavailable without the gem redis. Connects when it is first used.
      def initialize(url, max_size:, prefix: nil, options: nil)
        url = url.sub(/\Avalkey(s?):/) { "redi#{$1 == "s" ? "ss" : "s"}:" }
        unless url.match?(%r{\A(rediss?|unix)://}i)
          raise ArgumentError, "store: must be the path of a file, or a URL with redis://, rediss:// or unix://, not #{shown(url)}"
        end
        @max_size = max_size
        @prefix = prefix || PREFIX
        @shown = shown(url)
        @connections = Connections.new(url, options)
        @digests = { SAVE => Digest::SHA1.hexdigest(SAVE), TAKE => Digest::SHA1.hexdigest(TAKE) }
      end

      def read(key)
        record(using { |redis| redis.hgetall(name(key)) })
      end

      def create(key, record, now)
        save(key, true, record, record.fields, record.expires, now)
      end

      # Returns whether there still is such a session.
      def update(key, loaded, changed, expires, now)
        case save(key, false, loaded, changed, expires, now)
        when 1 then true
        when 0 then false
        else
          TooLarge.check((read(key) || loaded).changed(changed), @max_size)
          raise TooLarge, "the session has more than #{@max_size} bytes (max_size)"
        end
      end

      # Removes it, and returns what it was.
      def take(key)
        record(script(TAKE, key, []).each_slice(2).to_h)
      end

      # Nothing is left to be done.
      def sweep(_now)
        0
      end

      private

      def save(key, fresh, record, changed, expires, now)
        sets, gone = changed.partition { |_, bytes| bytes }
        sets = sets.flat_map { |name, bytes| [".#{name}", bytes] }
        time = 0
        if expires
          sets.push(META, "#{record.format} #{record.created} #{expires}")
          time = [expires - now + Store::GRACE, 1].max
        end
        script(SAVE, key, [fresh ? 1 : 0, changed.empty? ? 0 : @max_size, time, sets.size / 2, *sets, *gone.map { |name, _| ".#{name}" }])
      end

      # The Record of these fields; nil if there are none.
      def record(fields)
        return if fields.empty?

        format, created, expires = fields.delete(META)&.split
        raise Unavailable, "a session in #{@shown} was not written by this gem: set another `prefix`" unless expires

        Record.new(format, created.to_i, expires.to_i, fields.to_h { |name, bytes| [name.byteslice(1..).force_encoding(Encoding::UTF_8), bytes.b] })
      end

      def script(script, key, arguments)
        using do |redis|
          redis.evalsha(@digests[script], keys: [name(key)], argv: arguments)
        rescue Redis::CommandError => e
          raise unless e.message.start_with?("NOSCRIPT")

          redis.eval(script, keys: [name(key)], argv: arguments)
        end
      end

      def name(key)
        "#{@prefix}#{key.unpack1("H*")}"
      end

      def using(&block)
        @connections.with(&block)
      rescue StandardError => e
        raise unless FAILURES.any? { |failure| Object.const_defined?(failure) && e.is_a?(Object.const_get(failure)) }

        raise Unavailable, "sessions in #{@shown}: #{e.message}"
      end

      # Without a password.
      def shown(url)
        url.sub(%r{//[^/@]*@}, "//")
      end
    end
    private_constant :RedisBackend
  end
end
