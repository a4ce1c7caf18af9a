# frozen_string_literal: true

# The middleware of a Rack application as it was built, outermost first. It finds them by what they hold, and calls none.
module Paceline
  module Server
    module Shadow
      class Evidence
        class MiddlewareChain
          # Where middleware keeps the application behind it. @middleware is Rails' own, with instrumentation.
          NAMES = %i[@app @middleware @application @backend @stack @next].freeze
          # Applications that are looked at, at most.
          MAX = 500
          SHADOW = "#{File.expand_path("..", __dir__)}/".freeze
          private_constant :NAMES, :MAX, :SHADOW

          # One middleware: its object, and the applications behind it.
          Link = Struct.new(:object, :inner) do
            def name
              object.is_a?(Module) ? object.name.to_s : object.class.name.to_s
            end
          end

          # `app`: the whole application; nil: Rails'.
          def self.of(app = nil)
            app ||= ::Rails.application if defined?(::Rails) && ::Rails.respond_to?(:application)
            app ? new(app).links : []
          end

          # Where the `call` of APP begins, as [path, line]; nil: not in Ruby, or by method_missing. What stands before it is the shadow's.
          def self.location(app)
            return app.source_location if app.is_a?(Proc)

            call = app.method(:call)
            call = call.super_method while call&.source_location&.first.to_s.start_with?(SHADOW)
            call&.source_location
          rescue NameError
            nil
          end

          def initialize(app)
            @app = app
          end

          # All that is not merely an application: what has something behind it.
          def links
            found = []
            seen = {}.compare_by_identity
            waiting = [@app]
            while (app = waiting.shift) && seen.size < MAX
              next if seen[app]

              seen[app] = true
              inner = behind(app)
              waiting.unshift(*inner)
              found << Link.new(app, inner) unless inner.empty? || container?(app)
            end
            found
          end

          private

          def behind(app)
            return [app.app] if engine?(app)
            return [app.prototype] if sinatra?(app)
            return app.instance_variable_get(:@mapping).map(&:last) if defined?(::Rack::URLMap) && app.is_a?(::Rack::URLMap)
            return app.apps if defined?(::Rack::Cascade) && app.is_a?(::Rack::Cascade)
            return [] if app.is_a?(Proc) || app.is_a?(Method) || app.is_a?(Module) || routes?(app)

            [held(app)].compact
          end

          def held(app)
            names = NAMES & app.instance_variables
            found = names.map { |name| app.instance_variable_get(name) }.find { |object| object.respond_to?(:call) }
            return found if found

            others = app.instance_variables.map { |name| app.instance_variable_get(name) }
            others = others.select { |object| object.respond_to?(:call) && !object.is_a?(Proc) && !object.is_a?(Method) && !object.is_a?(Module) }
            others.first if others.size == 1
          end

          # What holds applications without being a middleware.
          def container?(app)
            engine?(app) || sinatra?(app) || (defined?(::Sinatra::Wrapper) && app.is_a?(::Sinatra::Wrapper)) ||
              (defined?(::Rack::URLMap) && app.is_a?(::Rack::URLMap)) || (defined?(::Rack::Cascade) && app.is_a?(::Rack::Cascade))
          end

          def engine?(app)
            defined?(::Rails::Engine) && app.is_a?(::Rails::Engine)
          end

          def sinatra?(app)
            defined?(::Sinatra::Base) && app.is_a?(Class) && app <= ::Sinatra::Base
          end

          def routes?(app)
            defined?(::ActionDispatch::Routing::RouteSet) && app.is_a?(::ActionDispatch::Routing::RouteSet)
          end
        end
      end
    end
  end
end
