# frozen_string_literal: true

# Sessions in Paceline's store, in a file below the shadow's temporary folder, whatever class of sessions the application has. Each visitor's session is
# taken over when it is first asked for, and every replay finds it as it was then. The application's own store is only read.
module Paceline
  module Server
    module Shadow
      module Patches
        class SessionStore
          # Before the ids of sessions as they are after a request.
          WRITTEN = "written "
          private_constant :WRITTEN

          def self.apply(_params, shadow)
            raise Inapplicable, "the application has no sessions of Rack" unless defined?(::Rack::Session::Abstract::Persisted)

            Guards::Sessions.instead = new(open(File.join(shadow.tmpdir, "sessions.paceline")))
          end

          def self.open(path)
            Patches.load_library("paceline/session/persistence")
            ::Paceline::Session::Store.new(store: path)
          rescue ::Paceline::Session::Error => e
            raise Inapplicable, e.message
          end
          private_class_method :open

          # `store`: a Paceline::Session::Store.
          def initialize(store)
            @store = store
            @found = {}
          end

          # The session's values. The block gives those that the application's own store has, or nil.
          def find(id)
            @found[id] = @store.find(id) || take_over(id, yield) or return
            @store.values(@found[id])
          end

          # As a request leaves it: beside the one that was found.
          def write(id, values)
            found, written = @found[id], WRITTEN + id
            (found && @store.update(written, found, values)) || @store.create(written, values)
          end

          private

          def take_over(id, values)
            return unless values

            @store.create(WRITTEN + id, values)
            @store.create(id, values)
          end
        end
      end
    end
  end
end
