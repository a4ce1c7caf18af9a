# frozen_string_literal: true

# One JSON object a line, in both directions, over the socket to the driver. Knows nothing of what the objects mean.
require "json"

module Paceline
  module Server
    module Shadow
      class Conversation
        def initialize(io)
          @io = io
          @io.close_on_exec = true
          @io.instance_variable_set(:@paceline_of_shadow, true)
          @lines = Thread::Queue.new
        end

        # From now on the block is called when the driver is gone, whatever the process is doing, and the process ends.
        def listen
          Thread.new do
            while (line = @io.gets)
              @lines << line
            end
          rescue SystemCallError, IOError
            nil
          ensure
            yield
            exit!(0)
          end
        end

        # The next object.
        def read
          JSON.parse(@lines.pop)
        end

        def write(object)
          @io.write(Conversation.encode(object) << "\n")
        rescue SystemCallError, IOError
          exit!(0)
        end

        def close
          @io.close
        end

        class << self
          # Headers and messages may be of any bytes; JSON is UTF-8.
          def encode(object)
            JSON.generate(object)
          rescue JSON::GeneratorError, EncodingError
            JSON.generate(clean(object))
          end

          private

          def clean(object)
            case object
            when Hash then object.to_h { |name, value| [clean(name), clean(value)] }
            when Array then object.map { |value| clean(value) }
            when String then object.dup.force_encoding(Encoding::UTF_8).scrub("?")
            when Float then object.finite? ? object : nil
            else object
            end
          end
        end
      end
    end
  end
end
