# frozen_string_literal: true

require_relative "free_line"

# What if the method that a line of the application is in took no time? As FreeLine, for a line that does its work itself: it computes, or in a block. A request's first
# replay shows the method. What the method sets beside its result is left out, too.
module Paceline
  module Server
    module Shadow
      module Patches
        class FreeMethod < FreeLine
          # `at`: as "app/models/beer.rb:4".
          def self.apply(params, shadow)
            path, _, line = params["at"].to_s.rpartition(":")
            raise Inapplicable, "no line is named" if path.empty?

            new(path, Integer(line), nil, shadow)
          end

          # Wherever it is called.
          def here?(_location) = true

          private

          def missing = "#{@path}:#{@line} is in no method"
          def trace = TracePoint.new(:line) { |event| find(event) }

          def find(event)
            return unless event.lineno == @line && event.method_id && @is_path[event.path]

            @name ||= event.method_id
            @owners[event.defined_class] ||= false if event.method_id == @name
          end
        end
      end
    end
  end
end
