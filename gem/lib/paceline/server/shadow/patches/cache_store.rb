# frozen_string_literal: true

# Rails.cache in Paceline's store, in a file below the shadow's temporary folder, where the application has its entries in a file each. An entry is taken over
# when it is first read; the application's files are only read. What a request writes is in the shadow's memory, as without this change.
module Paceline
  module Server
    module Shadow
      module Patches
        class CacheStore
          SIZE = 256 << 20
          private_constant :SIZE

          # Before the one cache that Rails.cache is.
          module Reading
            private

            # Not as the name of a file: making it takes longer than reading an entry from Paceline's store.
            def normalize_key(key, options = nil)
              CacheStore.active.plain.bind_call(self, key, options)
            end

            def read_entry(key, **options)
              CacheStore.active.read(self, key) { super(paceline_file(key), **options) }
            end

            # `key`: with its namespace.
            def paceline_file(key)
              CacheStore.active.of_file.bind_call(self, key, { namespace: nil })
            end
          end

          class << self
            # The one that is in use, or nil.
            attr_reader :active

            def apply(_params, shadow)
              cache = ::Rails.cache if defined?(::Rails) && ::Rails.respond_to?(:cache)
              of_files = defined?(::ActiveSupport::Cache::FileStore) && cache.instance_of?(::ActiveSupport::Cache::FileStore)
              raise Inapplicable, "Rails.cache is no FileStore" unless of_files

              @active = new(open(File.join(shadow.tmpdir, "cache.paceline")))
              cache.singleton_class.prepend(Reading)
            end

            private

            def open(path)
              Patches.load_library("paceline/cache_store")
              ::Paceline::CacheStore.new(path, size: SIZE)
            rescue ::Paceline::Records::Error => e
              raise Inapplicable, e.message
            end
          end

          # `normalize_key` of any store, and of a FileStore.
          attr_reader :plain, :of_file

          # `store`: a Paceline::CacheStore.
          def initialize(store)
            @store = store
            @plain, @of_file = [::ActiveSupport::Cache::Store, ::ActiveSupport::Cache::FileStore].map { |kind| kind.instance_method(:normalize_key) }
            @missing = {}
          end

          # The entry of a key in `cache`. The block asks the cache itself.
          def read(cache, key)
            return yield if @missing[key] || written?(cache, key)

            found = @store.read(key.b)
            found ? cache.send(:deserialize_entry, found.value) : take_over(cache, key, yield)
          end

          private

          # What this shadow's requests have written lies before the cache (guards/caches.rb).
          def written?(cache, key)
            cache.respond_to?(:paceline_overlay, true) && cache.send(:paceline_overlay).known?(key)
          end

          def take_over(cache, key, entry)
            kept = entry && @store.write(key.b, cache.send(:serialize_entry, entry).b)
            @missing[key] = true unless kept
            entry
          end
        end
      end
    end
  end
end
