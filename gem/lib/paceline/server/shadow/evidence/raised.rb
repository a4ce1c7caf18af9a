# frozen_string_literal: true

require_relative "observer"

# Exceptions, by the line of the application that raises them. Those of libraries are not counted: Ruby's own methods raise in the line that calls them.
module Paceline
  module Server
    module Shadow
      class Evidence
        class Raised < Observer
          # Fewer of one line are not reported.
          LEAST = 20
          # Ruby's own methods that are written in Ruby, and how many of them call each other at most.
          INTERNAL = "<internal:"
          DEEPEST = 8
          private_constant :LEAST, :INTERNAL, :DEEPEST

          def start(env)
            super
            @lines = Hash.new(0)
            @trace = TracePoint.new(:raise) { |event| Clock.aside { @lines[line(event)] += 1 } }
            @trace.enable
          end

          def stop(env)
            @trace.disable
            super
          end

          def to_h
            @lines.to_h.filter_map do |(path, line), count|
              at = @places.of(path, line) if count >= LEAST
              { at: at, count: count } if at
            end
          end

          private

          def line(event)
            return [event.path, event.lineno] unless event.path.start_with?(INTERNAL)

            location = caller_locations(4, DEEPEST)&.find { |one| !one.path.start_with?(INTERNAL) }
            [location&.path, location&.lineno]
          end
        end
      end
    end
  end
end
