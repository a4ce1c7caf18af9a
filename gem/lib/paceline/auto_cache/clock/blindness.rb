# frozen_string_literal: true

# Whether a library in C is loaded that may read a time without calling one of its methods: what it does with it is not seen. Reads each
# library's file once.
module Paceline
  module AutoCache
    module Clock
      module Blindness
        # Ruby's functions that give C a time's value.
        READS = /rb_time_(?:timespec|timeval|utc_offset)\b/n
        # Those of which it is known what they read: what a driver is given is seen before.
        KNOWN = %r{/pg_ext\.so\z}
        private_constant :READS, :KNOWN

        @seen = {}
        @features = 0
        @lock = Thread::Mutex.new

        class << self
          def any?(recording)
            return @any if $LOADED_FEATURES.size == @features

            recording.quiet { look }
          end

          def look
            @lock.synchronize do
              @features = $LOADED_FEATURES.size
              libraries = $LOADED_FEATURES.select { |path| path.end_with?(".so") && !@seen.key?(path) }
              libraries.each { |path| @seen[path] = !KNOWN.match?(path) && File.file?(path) && READS.match?(File.binread(path)) }
              @any = @seen.value?(true)
            end
          end
        end
      end
    end
  end
end
