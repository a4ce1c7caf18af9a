# frozen_string_literal: true

# Sessions that are kept on the server: a request finds what is kept, and what it changes lasts until it ends. So each replay finds the same. Sessions
# in a cookie need no guard.
module Paceline
  module Server
    module Shadow
      class Guards
        module Sessions
          # Where a session lies that is in the cookie.
          IN_COOKIES = %w[Rack::Session::Cookie ActionDispatch::Session::CookieStore].freeze
          private_constant :IN_COOKIES

          # Before each class of sessions.
          module OfOneRequest
            def find_session(req, sid)
              return [generate_sid, {}] if sid.nil? || Sessions.deleted?(sid)

              Sessions.kept?(sid) ? [sid, Sessions.find(sid)] : paceline_find(req, sid) { super }
            end

            def write_session(_req, sid, session, _options)
              Sessions.keep(sid, session.to_hash)
              sid
            end

            def delete_session(_req, sid, options)
              Sessions.delete(sid)
              generate_sid unless options[:drop]
            end

            private

            # Rack::Session::Pool enters what it does not find.
            def paceline_find(_req, sid)
              return yield unless respond_to?(:pool) && respond_to?(:get_session_with_fallback, true)

              session = get_session_with_fallback(sid)
              session ? [sid, Sessions.copy(session)] : [generate_sid, {}]
            end
          end

          @mutex = Thread::Mutex.new

          class << self
            # A request begins. Stores may have been loaded meanwhile.
            def settle
              return unless Guards.loaded?("Rack::Session::Abstract::Persisted")

              @mutex.synchronize do
                @stores ||= Descendants.new(::Rack::Session::Abstract::Persisted)
                @stores.each_after_change { |store| install(store) }
              end
            end

            def kept?(sid)
              !kept[name(sid)].nil?
            end

            def deleted?(sid)
              kept[name(sid)] == false
            end

            def find(sid)
              copy(kept[name(sid)])
            end

            def keep(sid, session)
              kept[name(sid)] = copy(session)
            end

            # As a store gives a new object to each reader.
            def copy(session)
              Marshal.load(Marshal.dump(session))
            end

            def delete(sid)
              kept[name(sid)] = false
            end

            private

            # What the request in hand has changed.
            def kept
              CurrentRequest.get.sessions ||= {}
            end

            def install(store)
              return if IN_COOKIES.include?(store.name) || store.ancestors.any? { |one| IN_COOKIES.include?(one.name) }

              # The first of its ancestors that writes; where it is the guard, there is one already.
              owner = store.instance_method(:write_session).owner
              store.prepend(OfOneRequest) unless owner == OfOneRequest || owner == ::Rack::Session::Abstract::Persisted
            end

            def name(sid)
              sid.respond_to?(:private_id) ? sid.private_id : sid.to_s
            end
          end
        end
      end
    end
  end
end
