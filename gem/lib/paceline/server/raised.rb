# frozen_string_literal: true

# The exception behind an error page that the application makes itself in development, as Rails and Sinatra do: the front
# adds to the page what to do about it. Changes no page, and asks in no other environment.
module Paceline
  module Server
    module Raised
      RAILS = "paceline.raised"
      SINATRA = "sinatra.error"
      private_constant :RAILS, :SINATRA

      module_function

      # The application has been loaded. Rails tells each exception to those who have asked for it.
      def watch(environment)
        return if @watches || environment != "development"
        @watches = true
        return unless defined?(::ActionDispatch::DebugExceptions)
        ::ActionDispatch::DebugExceptions.register_interceptor do |request, error|
          request.set_header(RAILS, error) if request.get_header("action_dispatch.show_detailed_exceptions")
        end
      end

      # What the request with this env ended with, if a page of the application says so.
      def behind(env)
        error = env[RAILS] || env[SINATRA] if @watches
        error if error.is_a?(Exception)
      end
    end
  end
end
