# frozen_string_literal: true

# Ruby's PStore and YAML::Store, and Paceline's in its plain format: a transaction that may write only reads, as long as it changes nothing, and keeps
# no other process waiting for its lock. What a session is written with works on a copy (sessions.rb).
module Paceline
  module Server
    module Shadow
      class Guards
        module PStore
          # Before PStore.
          module Reading
            def transaction(read_only = false, &block)
              Sessions.in_pstore
              copy = Sessions.copy_of(@filename) unless read_only
              copy ? paceline_on_copy(copy) { super } : super
            end

            private

            def paceline_on_copy(copy)
              original, @filename = @filename, copy
              yield
            ensure
              @filename = original
            end

            def open_and_lock_file(filename, read_only)
              return super if read_only || !Files.kept?(filename)

              super(filename, true) || Files.refuse(File.expand_path(filename))
            end

            # As Ruby's, but for the writing.
            def save_data(original_checksum, original_file_size, file)
              return super unless Files.kept?(@filename)

              data = dump(@table)
              changed = data.bytesize != original_file_size || self.class.const_get(:CHECKSUM_ALGO).digest(data) != original_checksum
              Files.refuse(File.expand_path(@filename)) if changed
            end
          end

          # Before Paceline::PStore::PlainFile.
          module ReadingPlain
            private

            def open_file(read_only)
              return super if read_only || !Files.kept?(@path)

              super(true) || Files.refuse(File.expand_path(@path))
            end

            def replace(file, content)
              Files.kept?(@path) ? Files.refuse(File.expand_path(@path)) : super
            end
          end

          class << self
            def there?
              Guards.loaded?("PStore") && ::PStore.private_method_defined?(:save_data)
            end

            def install
              ::PStore.prepend(Reading)
            end
          end

          # Paceline's.
          module OfPaceline
            class << self
              def there?
                Guards.loaded?("Paceline::PStore::PlainFile")
              end

              def install
                ::Paceline::PStore.const_get(:PlainFile).prepend(ReadingPlain)
              end
            end
          end
        end
      end
    end
  end
end
