# frozen_string_literal: true

require_relative "clock"
require_relative "places"

# What all observers have in common. An observer watches one thing during one request, through hooks in libraries or through
# ActiveSupport::Notifications. Hooks stay, and do nothing while nobody observes. A library that is not loaded is not loaded for this.
module Paceline
  module Server
    module Shadow
      class Evidence
        class Observer
          class << self
            # The one that observes now, or nil. A shadow answers one request at a time, whatever threads it uses.
            attr_accessor :active

            # Puts `hooks`, a module, before a class or a module's own methods. May be called again.
            def hook(target, hooks)
              target.prepend(hooks) unless target.ancestors.include?(hooks)
            end

            # Leads those of the methods `names` that `target` has through the active observer's method `through`, as a block.
            def lead(target, names, through)
              return if (@led ||= {}.compare_by_identity)[target]

              @led[target] = true
              observers = self
              target.prepend(Module.new do
                names.select { |name| target.method_defined?(name) }.each do |name|
                  define_method(name) do |*arguments, **options, &block|
                    observer = observers.active
                    observer ? observer.public_send(through) { super(*arguments, **options, &block) } : super(*arguments, **options, &block)
                  end
                end
              end)
            end
          end

          # `places`: a Places.
          def initialize(places)
            @places = places
            @subscriptions = []
          end

          # A request begins.
          def start(_env)
            install
            self.class.active = self
          end

          # It has ended, whether or not it failed.
          def stop(_env)
            self.class.active = nil
            @subscriptions.each { |subscription| ::ActiveSupport::Notifications.unsubscribe(subscription) }
            @subscriptions.clear
          end

          private

          # Hooks that are missing: libraries may be loaded late.
          def install; end

          # To events of ActiveSupport, by an object with `start` and `finish`.
          def subscribe(event, listener)
            return unless defined?(::ActiveSupport::Notifications)

            @subscriptions << ::ActiveSupport::Notifications.subscribe(event, listener)
          end
        end

        # Hears events of ActiveSupport that may contain each other. Yields, at each end, the payload and the microseconds.
        class Listener
          def initialize(&block)
            @block = block
            @key = :"paceline_listener_#{object_id}"
          end

          def start(_name, _id, _payload)
            (Thread.current[@key] ||= []) << Clock.now
          end

          def finish(_name, _id, payload)
            began = Thread.current[@key]&.pop or return # it began before anybody listened
            @block.call(payload, Clock.now - began)
          end

          # Events of other threads (`load_async`) come when they are over.
          def publish_event(event)
            @block.call(event.payload, event.duration * 1000.0)
          end
        end
      end
    end
  end
end
