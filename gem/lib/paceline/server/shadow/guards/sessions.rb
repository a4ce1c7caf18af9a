# frozen_string_literal: true

require_relative "../file_copies"
require_relative "descendants"

# Sessions that are kept on the server: a request finds what is kept, and what it changes lasts until it ends. So each replay finds the same. Sessions
# in a cookie need no guard. A session in a PStore is also written, to a copy that nobody reads: so that a request takes as long as a visitor's.
module Paceline
  module Server
    module Shadow
      class Guards
        module Sessions
          # Where a session lies that is in the cookie.
          IN_COOKIES = %w[Rack::Session::Cookie ActionDispatch::Session::CookieStore].freeze
          # Of a thread: the class of sessions that looks for one.
          FINDING = :paceline_shadow_finding_session
          # Of a thread that writes one.
          WRITING = :paceline_shadow_writing_session
          private_constant :IN_COOKIES, :FINDING, :WRITING

          # Before each class of sessions.
          module OfOneRequest
            def find_session(req, sid)
              return [generate_sid, {}] if sid.nil? || Sessions.deleted?(sid)
              return [sid, Sessions.find(sid)] if Sessions.kept?(sid)

              Sessions.find_kept(self, sid) { paceline_find(req, sid) { super } }
            end

            def write_session(_req, sid, session, _options)
              Sessions.keep(sid, session.to_hash)
              Sessions.write_kept(self, sid, session) { super }
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

          @in_pstore = {}
          @stores = Descendants.new("Rack::Session::Abstract::Persisted")

          class << self
            # Where sessions are instead of the application's own store: it answers `find` and `write` (patches/session_store.rb). Nil: they are there.
            attr_accessor :instead

            # Id and values. The block asks the application's own class, `store`.
            def find_kept(store, sid, &block)
              return within(FINDING, store.class, &block) unless @instead

              others = nil
              values = @instead.find(name(sid)) do
                others = yield
                others.last if others.first == sid
              end
              values ? [sid, values] : others
            end

            # The block writes by the application's own class.
            def write_kept(store, sid, session, &block)
              return @instead.write(name(sid), session.to_hash) if @instead

              within(WRITING, true, &block) if @in_pstore.key?(store.class)
            end

            # A transaction of PStore begins.
            def in_pstore
              store = Thread.current.thread_variable_get(FINDING)
              @in_pstore[store] = true if store
            end

            # Where to write what goes to `file`, wherever that is: requests may write to the folder for temporary files, but a visitor's session may lie there,
            # too. Nil: no session is being written, or the file is a copy already.
            def copy_of(file)
              return if !Thread.current.thread_variable_get(WRITING) || Files.own?(file)

              Guards.unguarded do
                @copies ||= FileCopies.new(File.join(Guards.shadow.tmpdir, "sessions"))
                @copies.path(file)
              end
            end

            # A request begins. Stores may have been loaded meanwhile.
            def settle
              @stores.settle { |store| install(store) }
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

            def within(name, value)
              Thread.current.thread_variable_set(name, value)
              yield
            ensure
              Thread.current.thread_variable_set(name, nil)
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
