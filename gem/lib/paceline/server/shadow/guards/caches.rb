# frozen_string_literal: true

require_relative "descendants"

# Caches of ActiveSupport that other processes share: a shadow reads them, and what it writes lies before them in its memory. So its requests find a
# warm cache, as real ones do. Counters, which limit how often a visitor may come, count for one request: a replayed one comes often.
module Paceline
  module Server
    module Shadow
      class Guards
        module Caches
          # What lies before one store.
          class Overlay
            def initialize
              @entries = {}
            end

            # Whether it knows what is under a key.
            def known?(key)
              @hides_all || @entries.key?(key) || counters.key?(key)
            end

            # The entry under a key that is known, or nil.
            def read(key)
              number = counters[key] and return ::ActiveSupport::Cache::Entry.new(number)

              kept = @entries[key]
              kept.is_a?(String) ? Marshal.load(kept) : kept
            end

            def write(key, entry)
              counters.delete(key)
              @entries[key] = dump(entry)
              true
            end

            def delete(key)
              counters.delete(key)
              @entries[key] = nil
            end

            # Adds to the counter under a key, which begins with the block's number.
            def count(key, amount)
              counters[key] = (counters[key] || yield.to_i) + amount
            end

            # From now on the store is as good as empty.
            def clear
              @entries.clear
              counters.clear
              @hides_all = true
            end

            private

            # As bytes: a store gives a new object to each reader, and a reader pays for reading alone.
            def dump(entry)
              Marshal.dump(entry)
            rescue TypeError # what no store but one in memory could keep
              entry
            end

            # Of this request.
            def counters
              CurrentRequest.get.counters(self)
            end
          end

          # Before each store that counts.
          module Counting
            def increment(name, amount = 1, options = nil, **more)
              paceline_count(name, amount, options, more)
            end

            def decrement(name, amount = 1, options = nil, **more)
              paceline_count(name, -amount, options, more)
            end

            private

            def paceline_overlay
              @paceline_overlay || Caches.synchronize { @paceline_overlay ||= Overlay.new }
            end

            def paceline_count(name, amount, options, more)
              options = merged_options((options || {}).merge(more))
              key = normalize_key(name, options)
              paceline_overlay.count(key, amount) { read_entry(key, **options)&.value }
            end
          end

          # Before each store that other processes share.
          module Overlaid
            def clear(*)
              paceline_overlay.clear
              true
            end

            # It deletes more than was meant.
            def delete_matched(*)
              paceline_overlay.clear
            end

            def cleanup(*)
              0
            end

            def prune(*)
              0
            end

            private

            def read_entry(key, **options)
              paceline_overlay.known?(key) ? paceline_overlay.read(key) : super
            end

            def write_entry(key, entry, **options)
              if options[:unless_exist]
                there = read_entry(key, **options)
                return false if there && !there.expired?
              end
              paceline_overlay.write(key, entry)
            end

            def delete_entry(key, **options)
              there = !read_entry(key, **options).nil?
              paceline_overlay.delete(key)
              there
            end

            def read_multi_entries(names, **options)
              known, others = names.partition { |name| paceline_overlay.known?(normalize_key(name, options)) }
              found = others.empty? ? {} : super(others, **options)
              known.each do |name|
                entry = paceline_overlay.read(normalize_key(name, options))
                found[name] = entry.value if entry && !entry.expired? && !entry.mismatched?(normalize_version(name, options))
              end
              names.each_with_object({}) { |name, values| values[name] = found[name] if found.key?(name) }
            end

            def write_multi_entries(entries, **options)
              entries.each { |key, entry| write_entry(key, entry, **options) }
            end

            def delete_multi_entries(keys, **options)
              keys.count { |key| delete_entry(key, **options) }
            end
          end

          @mutex = Thread::Mutex.new
          @stores = Descendants.new("ActiveSupport::Cache::Store")

          class << self
            # A request begins. Stores may have been loaded meanwhile.
            def settle
              @stores.settle { |store| install(store) }
            end

            def synchronize(&block)
              @mutex.synchronize(&block)
            end

            private

            def install(store)
              return if of_request?(store)

              # A module goes before each class once, and is in force for its subclasses, too.
              store.prepend(Counting) unless store.include?(Counting) || store.name == "ActiveSupport::Cache::NullStore"
              store.prepend(Overlaid) unless own?(store) || store.instance_method(:write_entry).owner == Overlaid
            end

            # What a request keeps for itself, before the store that it asks (Rails 6.1).
            def of_request?(store)
              store.name == "ActiveSupport::Cache::Strategy::LocalCache::LocalStore"
            end

            # What is in this process alone.
            def own?(store)
              %w[ActiveSupport::Cache::MemoryStore ActiveSupport::Cache::NullStore].include?(store.name)
            end
          end
        end
      end
    end
  end
end
