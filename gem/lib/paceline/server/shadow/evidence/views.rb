# frozen_string_literal: true

require_relative "observer"

# The templates that ActionView renders, each of its own: pages, layouts, partials, and each member of a collection.
module Paceline
  module Server
    module Shadow
      class Evidence
        class Views < Observer
          # An event of Rails for each rendering of a template. Without a subscriber Rails does not even send it.
          EVENT = "!render_template.action_view"
          LIMIT = 100
          # Of one file, in microseconds; `own`: without the templates within it.
          Times = Struct.new(:count, :us, :own)
          Frame = Struct.new(:path, :began, :within)
          private_constant :EVENT, :LIMIT, :Times, :Frame

          def initialize(places)
            super
            @times = Hash.new { |all, path| all[path] = Times.new(0, 0.0, 0.0) }
          end

          def start(env)
            super
            subscribe(EVENT, self.class::Renderings.new(@times)) if defined?(::ActionView)
          end

          # Those that took longest, `name` below the root.
          def to_h
            @times.sort_by { |_, times| -times.us }.first(LIMIT).map do |path, times|
              { name: @places.name(path), count: times.count, us: times.us.round, own_us: times.own.round }
            end
          end

          # Hears the events. A template within itself counts once in `us`.
          class Renderings
            def initialize(times)
              @times = times
              @key = :"paceline_views_#{object_id}"
            end

            def start(_name, _id, payload)
              frames << Frame.new(payload[:identifier].to_s, Clock.now, 0.0)
            end

            def finish(_name, _id, _payload)
              frame = frames.pop or return
              total = Clock.now - frame.began
              frames.last.within += total unless frames.empty?
              times = @times[frame.path]
              times.count += 1
              times.own += total - frame.within
              times.us += total unless frames.any? { |outer| outer.path == frame.path }
            end

            private

            def frames
              Thread.current[@key] ||= []
            end
          end
        end
      end
    end
  end
end
