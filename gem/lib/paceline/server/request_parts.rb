# frozen_string_literal: true

# Where a request's time goes within Rails and Active Record: the spans "sql" and "views" of requests that ask for them (`paceline bench`). It listens
# to ActiveSupport::Notifications from the first such request on, and costs nothing before.
require_relative "../spans"

module Paceline
  module Server
    module RequestParts
      # The field by which a client asks. The front lets it through from this machine only.
      ASKING = "HTTP_PACELINE_BENCH"
      private_constant :ASKING

      @subscribing = Mutex.new
      @subscribed = false

      class << self
        # A request begins. The app sees nothing of the field.
        def start(env)
          wanted = !env.delete(ASKING).nil?
          Thread.current[:paceline_parts] = wanted
          subscribe if wanted && !@subscribed
        end

        private

        def subscribe
          @subscribing.synchronize do
            return if @subscribed || !defined?(::ActiveSupport::Notifications)

            ::ActiveSupport::Notifications.monotonic_subscribe("sql.active_record") do |_, began, ended|
              add("sql", ended - began)
            end
            # Without the SQL that a view does.
            ::ActiveSupport::Notifications.subscribe("process_action.action_controller") do |*, payload|
              add("views", payload[:view_runtime].to_f / 1000)
            end
            @subscribed = true
          end
        end

        def add(name, seconds)
          Paceline.add_span(name, seconds * 1e6) if seconds.positive? && Thread.current[:paceline_parts]
        end
      end
    end
  end
end
