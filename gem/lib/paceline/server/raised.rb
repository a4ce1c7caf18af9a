# frozen_string_literal: true

# The exception behind an error page that the application makes itself, as Rails and Sinatra do: the front names it in the log
# and, in development, adds to the page what to do about it. Changes no page.
module Paceline
  module Server
    module Raised
      DETAILED = "paceline.raised"
      RAILS = "action_dispatch.exception"
      SINATRA = "sinatra.error"
      private_constant :DETAILED, :RAILS, :SINATRA

      module_function

      # The application has been loaded. Rails tells each exception to those who have asked for it. In development only pages
      # with details come from an exception as far as the front is concerned: what visitors will see stays as it is.
      def watch(environment)
        return if @rails
        @rails = environment == "development" ? DETAILED : RAILS
        return unless @rails == DETAILED && defined?(::ActionDispatch::DebugExceptions)
        ::ActionDispatch::DebugExceptions.register_interceptor do |request, error|
          request.set_header(DETAILED, error) if request.get_header("action_dispatch.show_detailed_exceptions")
        end
      end

      # What the request with this env ended with, if a page of the application says so.
      def behind(env)
        error = env[@rails] || env[SINATRA] if @rails
        error if error.is_a?(Exception)
      end
    end
  end
end
