# frozen_string_literal: true

require_relative "middleware_chain"
require_relative "observer"

# The time that each middleware takes for itself, in `call` and while the body passes through it. It watches objects one by one, by a
# module before their singleton classes; frozen ones are left out, so that their time is that of the middleware around them.
module Paceline
  module Server
    module Shadow
      class Evidence
        class Middleware < Observer
          # Whose time it is that passes on one thread: of the last one that was entered and not left.
          class Owners
            attr_reader :times

            def initialize
              @times = Hash.new(0.0)
              @stack = []
              @thread = Thread.current
              @since = Clock.now
            end

            # The block's time belongs to `owner`; nil: to nobody.
            def within(owner)
              return yield unless Thread.current.equal?(@thread)

              charge
              depth = @stack.size
              @stack.push(owner)
              begin
                yield
              ensure
                charge
                @stack.pop while @stack.size > depth
              end
            end

            # Whose the time is now.
            def owner
              @stack.last
            end

            private

            def charge
              now = Clock.now
              @times[@stack.last] += now - @since
              @since = now
            end
          end

          # Before the methods of one middleware.
          module Calls
            def call(env)
              observer = Middleware.active or return super
              observer.call(self) { super }
            end
          end

          # Before the methods of one body.
          module Pieces
            def each(&block)
              observer = Middleware.active
              return super unless observer && block

              outer = observer.owners.owner
              observer.owners.within(@paceline_owner) do
                super { |piece| observer.owners.within(outer) { yield piece } }
              end
            end

            def close
              observer = Middleware.active or return super
              observer.owners.within(@paceline_owner) { super }
            end
          end

          attr_reader :owners

          # `app`: the whole application; nil: Rails'.
          def initialize(places, app = nil)
            super(places)
            @app = app
          end

          def start(env)
            links = MiddlewareChain.of(@app)
            @names = {}.compare_by_identity
            @ats = {}
            @bodies = {}.compare_by_identity
            links.each do |link|
              next unless watch(link.object)

              @names[link.object] = link.name
              @ats[link.name] ||= at(link.object)
            end
            @ends = links.flat_map(&:inner).reject { |app| @names.key?(app) }.select { |app| watch(app) }
            @owners = Owners.new
            super
          end

          # @api private The block calls the middleware or the application `app` itself.
          def call(app)
            name = @names[app]
            response = @owners.within(name) { yield }
            Clock.aside { watch_body(response, name) }
            response
          end

          # Microseconds, the most first; `at`: where its `call` begins, as "lib/stamper.rb:7".
          def to_h
            return [] unless @owners

            @owners.times.reject { |name, _| name.nil? }.sort_by { |_, us| -us }.map { |name, us| { name: name, at: @ats[name], own_us: us.round } }
          end

          private

          # "": not in Ruby, or by method_missing.
          def at(app)
            path, line = MiddlewareChain.location(app)
            path ? "#{@places.name(path)}:#{line}" : ""
          end

          # False if it can't be watched.
          def watch(app)
            return false if app.frozen? || app.is_a?(Module) || !app.respond_to?(:call)

            self.class.hook(app.singleton_class, Calls)
            true
          rescue TypeError # it has no singleton class
            false
          end

          # A body that an inner one has returned already is that one's.
          def watch_body(response, name)
            body = response[2] if response.is_a?(Array)
            return if body.nil? || @bodies[body]

            @bodies[body] = true
            return if body.frozen? || body.is_a?(Array) || !body.respond_to?(:each) || !body.respond_to?(:close)

            body.instance_variable_set(:@paceline_owner, name)
            self.class.hook(body.singleton_class, Pieces)
          end
        end
      end
    end
  end
end
