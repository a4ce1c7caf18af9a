# frozen_string_literal: true

require "active_support/cache"
require "paceline/cache_store"

module ActiveSupport
  module Cache
    # A cache in one file of bounded size, shared by all processes of a machine (Paceline::CacheStore). Guide: docs/cache-store.md.
    #
    #   config.cache_store = :paceline_file_store, "tmp/cache.paceline", { size: 256.megabytes }
    class PacelineFileStore < Store
      DEFAULT_SIZE = 256 * 1024 * 1024
      # Seconds between two lines of the log that say that the cache does not work.
      BETWEEN_LINES = 60
      # From Rails 7.1 on counting begins with a key that is not there, and goes on until what was there expires.
      COUNTS_FROM_NOTHING = ActiveSupport.gem_version >= Gem::Version.new("7.1.0.a")
      # What a write returns that failed: as in Rails' stores on Redis and memcached.
      NOT_WRITTEN = ActiveSupport.gem_version >= Gem::Version.new("7.2.0.a") ? nil : false
      private_constant :BETWEEN_LINES, :COUNTS_FROM_NOTHING, :NOT_WRITTEN

      def self.supports_cache_versioning?
        true
      end

      attr_reader :cache_path

      # `cache_path`: the file, made by the first use; one that is not absolute is the application's. `size`: bytes that it may have, at least
      # 1 MB; default 256 MB. `error_handler`: called with `method:`, `returning:` and `exception:` when the file can't be used; default: a
      # line in the log once a minute, and Rails' error reporter. Further options: those of every store. Raises Paceline::Records::Error
      # without the native part of the gem, ArgumentError.
      def initialize(cache_path, size: DEFAULT_SIZE, error_handler: nil, **options)
        # Keys of any length are kept as they are, so that delete_matched finds them.
        options[:max_key_size] = false if Cache::UNIVERSAL_OPTIONS.include?(:max_key_size) && !options.key?(:max_key_size)
        super(options)
        @cache_path = File.expand_path(cache_path.to_s, defined?(::Rails.root) ? ::Rails.root&.to_s : nil)
        raise ArgumentError, "#{@cache_path} is a folder: name a file, tmp/cache.paceline" if File.directory?(@cache_path)

        @error_handler = error_handler || method(:tell)
        @store = Paceline::CacheStore.new(@cache_path, size: size, log: ->(line) { say(:warn, line) })
      end

      # Deletes all entries, whatever their namespace.
      def clear(_options = nil)
        failsafe(:clear) do
          @store.clear
          true
        end
      end

      # Deletes what has expired, which also goes by itself when there must be room. Returns how many entries.
      def cleanup(_options = nil)
        failsafe(:cleanup, returning: 0) { @store.cleanup }
      end

      # Deletes what has expired, then what was used least recently, until no more than `target_size` bytes are filled; not for much longer than
      # `max_time` seconds. It goes by itself as far as `size` needs it. Returns how many entries.
      def prune(target_size, max_time = nil)
        failsafe(:prune, returning: 0) do
          instrument(:prune, target_size, from: @store.used) { @store.prune(target_size, max_time) }
        end
      end

      # Deletes the entries whose keys match a Regexp, in the namespace if there is one. Looks at the keys of all. Returns how many.
      def delete_matched(matcher, options = nil)
        options = merged_options(options)
        instrument(:delete_matched, matcher.inspect) do
          matcher = key_matcher(matcher, options)
          failsafe(:delete_matched, returning: 0) { @store.delete_if { |key| text(key).match?(matcher) } }
        end
      end

      # Adds to a number, whatever other processes do to it meanwhile, and returns it. What there is of none: as in Rails' FileStore, `amount`, or
      # before Rails 7.1 nil.
      def increment(name, amount = 1, options = nil, **more)
        count(:increment, name, Integer(amount), Integer(amount), options ? options.merge(more) : more)
      end

      def decrement(name, amount = 1, options = nil, **more)
        count(:decrement, name, Integer(amount), -Integer(amount), options ? options.merge(more) : more)
      end

      # Bytes that the entries fill.
      def used
        failsafe(:used) { @store.used }
      end

      def inspect # :nodoc:
        "#<#{self.class.name} cache_path=#{@cache_path}, size=#{@store.size}, options=#{@options.inspect}>"
      end

      private

      def read_entry(key, **options)
        payload = read_serialized_entry(key, **options)
        loaded(payload) if payload
      end

      # What has expired is not there; it lies in the file until it is overwritten or in the way.
      def read_serialized_entry(key, **_options)
        failsafe(:read_entry) do
          found = @store.read(key.b)
          found.value if found && !found.expired?(Time.now.to_f)
        end
      end

      def read_multi_entries(names, **options)
        keys = names.to_h { |name| [name, normalize_key(name, options)] }
        found = failsafe(:read_multi_entries, returning: {}) { @store.read_many(keys.values.map(&:b).uniq) }
        time = Time.now.to_f
        keys.each_with_object({}) do |(name, key), values|
          stored = found[key.b]
          next if stored.nil? || stored.expired?(time)

          entry = loaded(stored.value)
          next if entry.nil? || entry.mismatched?(normalize_version(name, options))

          value(entry) { |it| values[name] = it }
        end
      end

      def write_entry(key, entry, **options)
        payload = dumped(entry, options)
        expires = expiry(entry)
        failsafe(:write_entry, returning: NOT_WRITTEN) do
          next @store.write(key.b, payload, expires) unless options[:unless_exist]

          @store.update(key.b) { |old| [payload, expires] if old.nil? || old.expired?(Time.now.to_f) }
        end
      end

      def write_multi_entries(entries, **options)
        return entries.each { |key, entry| write_entry(key, entry, **options) } if options[:unless_exist]

        failsafe(:write_multi_entries) do
          @store.write_many(entries.to_h { |key, entry| [key.b, [dumped(entry, options), expiry(entry)]] })
          entries
        end
      end

      def delete_entry(key, **_options)
        failsafe(:delete_entry, returning: false) { @store.delete(key.b) }
      end

      def delete_multi_entries(keys, **_options)
        failsafe(:delete_multi_entries, returning: 0) { @store.delete_many(keys.map(&:b)) }
      end

      # Of those who miss an entry that has just expired, the first, in whatever process, lets it live for `race_condition_ttl` more and makes a
      # new one; all others have the old one meanwhile.
      def handle_expired_entry(entry, key, options)
        return entry if entry || options[:force]

        ttl = options[:race_condition_ttl].to_i
        ttl.positive? ? failsafe(:read_entry) { revived(key, ttl, options) } : nil
      end

      # nil for the first, and where there is none.
      def revived(key, ttl, options)
        stale = @store.read(key.b) or return
        time = Time.now.to_f
        return loaded(stale.value) unless stale.expired?(time)
        return if time - stale.expires > ttl

        entry = loaded(stale.value) or return
        entry.expires_at = time + ttl
        payload = dumped(entry, options)
        first = @store.update(key.b) do |now|
          [payload, entry.expires_at] if now && now.number == stale.number && now.expires == stale.expires && now.value == stale.value
        end
        first ? nil : read_entry(key, **options)
      end

      def count(method, name, amount, by, options)
        options = merged_options(options)
        key = normalize_key(name, options)
        version = normalize_version(name, options)
        instrument(method, name_or(key, name), amount: amount) do
          failsafe(method) do
            number = nil
            @store.update(key.b) do |old|
              old = nil if old&.expired?(Time.now.to_f)
              entry = old && loaded(old.value)
              entry = nil if entry&.mismatched?(version)
              number, new = counted(entry, by, version, options)
              new && [dumped(new, options), expiry(new)]
            end
            number
          end
        end
      end

      # The number, and the entry that holds it.
      def counted(entry, by, version, options)
        if COUNTS_FROM_NOTHING
          return [by, Entry.new(by, **options.merge(version: version))] unless entry

          number = entry.value.to_i + by
          [number, Entry.new(number, expires_at: entry.expires_at, version: entry.version)]
        elsif entry&.value
          number = entry.value.to_i + by
          [number, Entry.new(number, **options.merge(version: version))]
        end
      end

      # Before Rails 7 what is instrumented are names.
      def name_or(key, name)
        ActiveSupport::VERSION::MAJOR < 7 ? name : key
      end

      def dumped(entry, options)
        payload = ActiveSupport::VERSION::MAJOR < 7 ? serialize_entry(entry) : serialize_entry(entry, **options)
        raise ArgumentError, "a coder of this store makes Strings, not #{payload.class}" unless payload.is_a?(String)

        payload.encoding == Encoding::BINARY ? payload : payload.b
      end

      # The entry, or nil if it can't be loaded: its class is gone, or another version of Rails has written it.
      def loaded(payload)
        entry = deserialize_entry(payload)
        entry if entry.is_a?(Cache::Entry)
      rescue StandardError => e
        handle(e, :read_entry, nil)
        nil
      end

      # Yields its value, unless that can't be loaded.
      def value(entry)
        yield entry.value
      rescue StandardError => e
        raise unless Cache.const_defined?(:DeserializationError) && e.is_a?(Cache::DeserializationError)
      end

      def expiry(entry)
        entry.expires_at || Float::INFINITY
      end

      # What a Regexp can be matched with: keys are whatever bytes somebody has made them of.
      def text(key)
        key.dup.force_encoding(Encoding::UTF_8).scrub
      end

      def failsafe(method, returning: nil)
        yield
      rescue Paceline::Records::Error, SystemCallError, IOError, ThreadError => e
        handle(e, method, returning)
        returning
      end

      def handle(error, method, returning)
        @error_handler.call(method: method, exception: error, returning: returning)
      end

      # Rails gives its stores no logger of their own.
      def say(severity, line)
        to = logger || (::Rails.logger if defined?(::Rails.logger))
        to ? to.public_send(severity, "PacelineFileStore: #{line}") : warn("PacelineFileStore: #{line}")
      end

      def tell(method:, returning:, exception:)
        now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        return if @logged_at && now - @logged_at < BETWEEN_LINES

        @logged_at = now
        say(:error, "#{method} failed, returned #{returning.inspect}: #{exception.class}: #{exception.message}")
        return unless ActiveSupport.respond_to?(:error_reporter)

        ActiveSupport.error_reporter&.report(exception, handled: true, severity: :warning, source: "paceline_file_store.active_support")
      end
    end
  end
end
