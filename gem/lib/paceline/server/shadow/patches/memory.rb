# frozen_string_literal: true

# What a what-if keeps of the first replay of each request, for the later ones. It never leaves the shadow.
module Paceline
  module Server
    module Shadow
      module Patches
        class Memory
          # `shadow`: says when a replay begins.
          def initialize(shadow)
            @requests = {}
            start(nil, true)
            shadow.on_replay { |id, first| start(id, first) }
          end

          # Whether this is the first replay of its request.
          def recording?
            @recording
          end

          # What is kept under a key.
          def [](key)
            @kept[key]
          end

          def []=(key, value)
            @kept[key] = value
          end

          # How often `next_number` was asked for this within this replay.
          def number(key)
            @numbers[key]
          end

          # Counts one call, and returns how many came before it: 0, 1, 2 ...
          def next_number(key)
            @numbers[key] += 1
            @numbers[key] - 1
          end

          private

          def start(id, first)
            @recording = first
            @kept = first ? (@requests[id] = {}) : (@requests[id] ||= {})
            @numbers = Hash.new(0)
          end
        end
      end
    end
  end
end
