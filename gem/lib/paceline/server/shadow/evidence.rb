# frozen_string_literal: true

require_relative "evidence/cache"
require_relative "evidence/framework"
require_relative "evidence/gc"
require_relative "evidence/json"
require_relative "evidence/log"
require_relative "evidence/mail"
require_relative "evidence/middleware"
require_relative "evidence/outbound"
require_relative "evidence/pstore"
require_relative "evidence/raised"
require_relative "evidence/records"
require_relative "evidence/session"
require_relative "evidence/sql"
require_relative "evidence/views"
require_relative "evidence/visitor"
require_relative "evidence/xml"
require_relative "evidence/xml_mini"

# What happens within one replayed request, as `paceline doctor` reads it: queries, views, calls to others, and so on. Observing slows a request
# down, so that such a replay is never measured; it changes nothing of the answer. A library that is missing has nothing to show.
module Paceline
  module Server
    module Shadow
      class Evidence
        OBSERVERS = { sql: Sql, views: Views, outbound: Outbound, xml: Xml, xml_mini: XmlMini, pstore: Pstore, log: Log, mail: Mail,
                      session: Session, middleware: Middleware, gc: Gc, json: Json, cache: Cache, records: Records,
                      raised: Raised, framework: Framework }.freeze
        private_constant :OBSERVERS

        # `root`: the application's folder. `app`: the whole Rack application, for its middleware; nil: Rails'.
        def initialize(root:, app: nil)
          @places = Places.new(root)
          @app = app
          @observers = {}
        end

        # Observes one request: the block calls the application with `env` and consumes the body. Returns what the block returns.
        def around(env)
          @observers = OBSERVERS.transform_values { |kind| kind == Middleware ? kind.new(@places, @app) : kind.new(@places) }
          started = []
          Clock.follow_thread
          @observers.each_value { |observer| started << observer.tap { observer.start(env) } }
          yield
        ensure
          started&.reverse_each { |observer| stop(observer, env) }
        end

        # The members of EVIDENCE for the last request, ready for JSON. Times in microseconds, places as "app/models/beer.rb:4" or "".
        def to_h
          OBSERVERS.to_h { |name, _| [name, @observers[name]&.to_h] }
        end

        private

        # One that fails must not keep the others.
        def stop(observer, env)
          observer.stop(env)
        rescue StandardError => e
          warn "paceline doctor: #{observer.class.name}: #{e.message} (#{e.class}, #{e.backtrace&.first})"
        end
      end
    end
  end
end
