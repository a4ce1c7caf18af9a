# frozen_string_literal: true

# Which of the recorded times a request's connections and calls take. As they were recorded, or, for a what-if, as if all calls had been made at
# once: each starts at 0, and takes only what goes beyond all that was waited for before. So the longest takes its time, and they take no more
# together. It waits for nothing by itself.
module Paceline
  module Server
    module Shadow
      module Outbound
        class Timeline
          def initialize(parallel)
            @parallel = parallel
            @mutex = Thread::Mutex.new
            @reached = 0
            @counts = {}
          end

          # For how long a connection is to be opened (microseconds), of which the record says `connect_us`.
          def connect(connection, connect_us)
            @mutex.synchronize do
              count(connection)["connections"] += 1
              open(connection, connect_us, "connect_us")
            end
          end

          # For how long its handshake is to take (microseconds), of which the record says `tls_us`.
          def tls(connection, tls_us)
            @mutex.synchronize { open(connection, tls_us, "tls_us") }
          end

          # For how long the first byte of an answer is to be waited for, and the last one after it: microseconds.
          def call(connection, recording)
            @mutex.synchronize do
              start = connection.open_at || 0
              connection.open_at = nil
              wait = phase(start, recording.wait_us)
              rest = phase(start + recording.wait_us, recording.rest_us)
              counts = count(connection)
              counts["calls"] += 1
              counts["wait_us"] += wait
              counts["rest_us"] += rest
              [wait, rest]
            end
          end

          # See Outbound.counts.
          def counts
            @mutex.synchronize { @counts.transform_values(&:dup) }
          end

          private

          def open(connection, length, name)
            delay = phase(connection.open_at, length)
            connection.open_at += length
            count(connection)[name] += delay
            delay
          end

          def phase(start, length)
            return length unless @parallel

            before = [@reached, start].max
            @reached = [@reached, start + length].max
            [@reached - before, 0].max
          end

          def count(connection)
            @counts[connection.origin.to_s] ||= %w[calls connections connect_us tls_us wait_us rest_us].to_h { |name| [name, 0] }
          end
        end
      end
    end
  end
end
