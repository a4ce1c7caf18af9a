# frozen_string_literal: true

# What Paceline itself keeps in files (Paceline::Records): PStore, sessions, the cache. Nothing is written there, and no file is made.
module Paceline
  module Server
    module Shadow
      class Guards
        module PacelineRecords
          # Before Paceline::Records.
          module Reading
            def commit(changes, **options)
              return super if changes.empty? || !Files.kept?(path)

              Files.refuse(path)
            end

            private

            def open_store
              Files.refuse(path) if Files.kept?(path) && !File.exist?(path)
              # Who reads has an entry in a file of locks.
              Confinement.outside { super }
            end
          end

          # Before Paceline::CacheStore: which entries are in use is told to nobody.
          module ForgettingUse
            private

            def note_use(_entry)
              nil
            end
          end

          class << self
            def there?
              Guards.loaded?("Paceline::Records")
            end

            def install
              ::Paceline::Records.prepend(Reading)
            end
          end

          # Paceline's cache.
          module OfCache
            class << self
              def there?
                Guards.loaded?("Paceline::CacheStore")
              end

              def install
                ::Paceline::CacheStore.prepend(ForgettingUse)
              end
            end
          end
        end
      end
    end
  end
end
