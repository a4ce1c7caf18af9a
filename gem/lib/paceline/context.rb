# frozen_string_literal: true

# Who is asking, in which request, from anywhere in the application: models, observers, callbacks, jobs, mailers, views.
#
#   use Paceline::Context                                                            # config.ru; in Rails it is there already
#   Paceline::Context.user_from { |request| User.find_by(login: request.env["REMOTE_USER"]) } # an initializer
#
#   Paceline.current.user          # the User; nil outside a request
#   Paceline.current.request_id    # "4f0c..."
#   Paceline.current[:tenant] = tenant
#
# The middleware opens a scope for each request and ends it when the body was closed, also if the application raises, the thread is killed or the
# connection is hijacked. It changes no response, writes no log, and asks for the user only when the application does. Guide: docs/request-context.md.
require_relative "context/identity"
require_relative "context/slot"
require_relative "context/source"
require_relative "context/scope"
require_relative "context/current"
require_relative "context/body"

module Paceline
  # The context of the request in hand.
  def self.current
    Context::Current
  end

  # Rack middleware (Rack 2 and 3). Within itself it does nothing a second time.
  class Context
    # A value is to be kept, and there is no request that it could belong to.
    class NoRequest < StandardError; end

    # Where the env has the scope.
    SCOPE = "paceline.context"
    class << self
      # The block that finds a request's user, or nil: see user_from.
      attr_reader :resolver

      # How a request's user is found. The block gets the request (ActionDispatch::Request in Rails, else Rack::Request) when the user is first asked for.
      # What it returns is kept for the rest of the request, except nil. Without a block: what the server has authenticated (Identity). Returns self.
      #
      #   Paceline::Context.user_from { |request| request.env["warden"]&.user }                                   # Devise, Warden
      #   Paceline::Context.user_from { |request| (id = request.session[:user_id]) && User.find_by(id: id) }      # a login of your own
      def user_from(&block)
        @resolver = block
        self
      end
    end

    def initialize(app)
      @app = app
    end

    def call(env)
      return @app.call(env) if env[SCOPE]&.here?

      # Known here before it is in place: from then on it ends, whenever the thread is interrupted.
      scope = env[SCOPE] = Scope.new(EnvSource.new(env))
      scope.start
      answer = @app.call(env)
      kept = keep(env, answer, scope)
      kept || answer
    ensure
      # A call, and no condition here: Ruby ends a thread at a branch, too, and would skip what is left of this.
      conclude(scope, kept)
    end

    private

    def conclude(scope, kept)
      Thread.handle_interrupt(UNINTERRUPTED) { scope&.finish unless kept }
    end

    # The response with a body that ends the scope; nil: it has none that could run code of the application.
    def keep(env, answer, scope)
      status, headers, body = answer
      return if env["rack.hijack_io"] || status.to_i.negative?

      hijack = headers["rack.hijack"]
      return if body.instance_of?(Array) && hijack.nil?

      # Servers that don't close the body call it here: Rack 3's list, or Puma's.
      (env["rack.response_finished"] || env["rack.after_reply"])&.push(scope)
      headers = headers.merge("rack.hijack" => Takeover.new(hijack, scope)) if hijack
      scope.returned
      [status, headers, Body.around(body, scope)]
    end
  end
end
