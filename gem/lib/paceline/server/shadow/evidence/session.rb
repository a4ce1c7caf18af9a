# frozen_string_literal: true

require_relative "observer"

# The visitor's session, if the request uses it: how large it is, and whether the request changes it. Its content is not reported.
module Paceline
  module Server
    module Shadow
      class Evidence
        class Session < Observer
          # Before the sessions of Rails and of Rack, which are loaded when they are first used.
          module Loading
            private

            def load!(...)
              super.tap { Session.active&.loaded(self) }
            end
          end

          def start(env)
            super
            @before = {}.compare_by_identity
          end

          # @api private
          def loaded(session)
            Clock.aside { @before[session] ||= content(session) }
          end

          def stop(env)
            super
            session = env["rack.session"]
            return unless session.respond_to?(:loaded?) && session.loaded?

            store = session.instance_variable_get(:@by) || session.instance_variable_get(:@store) or return
            after = content(session)
            @found = { store: store.class.name.to_s, bytes: cookie(env, store)&.bytesize || after.bytesize, changed: @before[session] != after }
          end

          # `bytes`: of the cookie where the session is in it, else of the session in Ruby's Marshal format.
          def to_h
            @found
          end

          private

          def install
            self.class.hook(::ActionDispatch::Request::Session, Loading) if defined?(::ActionDispatch::Request::Session)
            self.class.hook(::Rack::Session::Abstract::SessionHash, Loading) if defined?(::Rack::Session::Abstract::SessionHash)
          end

          def content(session)
            Marshal.dump(session.to_hash)
          rescue StandardError # what Marshal can't write
            session.to_hash.inspect
          end

          # As it goes to the visitor, or as it came from there; nil: the session is somewhere else.
          def cookie(env, store)
            return unless store.class.name.to_s.include?("Cookie") && store.respond_to?(:key)

            jar = env["action_dispatch.cookies"]
            value = jar[store.key] if jar.respond_to?(:[])
            (value || ::Rack::Request.new(env).cookies[store.key])&.to_s
          end
        end
      end
    end
  end
end
