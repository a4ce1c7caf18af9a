# frozen_string_literal: true

# How outbound calls were answered when they were really made, and how long their connections took to open. In memory only.
module Paceline
  module Server
    module Shadow
      module Outbound
        class Recordings
          # A response. `bytes`: as they came; `first`: how many came at once; `wait_us`: from the request to the first byte; `rest_us`: from there to the
          # last; `closes`: the connection is closed after it; `number`: of the recording, in this process.
          Recording = Struct.new(:key, :bytes, :first, :wait_us, :rest_us, :closes, :number)
          # Fields of a request that change its answer, and are the same in each replay.
          FIELDS = %w[accept range].freeze
          private_constant :FIELDS

          # What calls with the same answers have in common.
          def self.key(origin, req, body)
            fields = FIELDS.filter_map { |name| "#{name}: #{req[name]}" if req[name] && req[name] != "*/*" }
            ["#{req.method} #{origin}#{req.path}", *fields, *(["", [body].pack("m0")] if body)].join("\n")
          end

          def initialize
            @mutex = Thread::Mutex.new
            # {name of a request, or nil => {key => [Recording]}}
            @requests = {}
            # {origin => [[connect, TLS], ...]} in microseconds
            @connections = {}
            @number = 0
          end

          # Forgets what is recorded for this request. Nil: nothing, since nil stands for all requests without a name.
          def forget(name)
            @mutex.synchronize { @requests.delete(name) } if name
          end

          def add(name, key, bytes, first, wait_us, rest_us, closes)
            @mutex.synchronize do
              recording = Recording.new(key, bytes, first, wait_us, rest_us, closes, @number += 1)
              ((@requests[name] ||= {})[key] ||= []) << recording
              recording
            end
          end

          def add_connection(origin, connect_us, tls_us)
            @mutex.synchronize { (@connections[origin] ||= []) << [connect_us, tls_us] }
          end

          # The next answer to this call, or nil: those of its request one after another, and then from the start. A request that has none for this call
          # is given another's. `calls`: of the request: its name, and how many of each key it was given.
          def take(key, calls)
            @mutex.synchronize do
              list = @requests.dig(calls.name, key) || @requests.each_value.filter_map { |of_other| of_other[key] }.first or return
              calls.given[key] += 1
              list[(calls.given[key] - 1) % list.size]
            end
          end

          # The median time to open a connection, and to shake hands, in microseconds; 0 if none was recorded.
          def connect_us(origin)
            median(origin.to_s, 0)
          end

          def tls_us(origin)
            median(origin.to_s, 1)
          end

          # See Recorder#dump.
          def load(dump)
            name = dump["request"]
            forget(name)
            dump["calls"].each do |key, bytes, first, wait_us, rest_us, closes|
              add(name, key, bytes.unpack1("m0"), first, wait_us, rest_us, closes)
            end
            dump["connections"].each { |origin, connect_us, tls_us| add_connection(origin, connect_us, tls_us) }
          end

          private

          def median(origin, place)
            times = @mutex.synchronize { @connections[origin]&.map { |one| one[place] } } or return 0
            times.sort[(times.size - 1) / 2]
          end
        end
      end
    end
  end
end
