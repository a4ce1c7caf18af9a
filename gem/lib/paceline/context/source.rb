# frozen_string_literal: true

# Where a scope gets what it does not know yet. A source has `user`, `identity`, `request_id`, `trace` ([traceparent, tracestate] or nil) and `label` (what the
# user is called in logs, if that is known without the user), each asked for when it is needed. None keeps what it found.
module Paceline
  class Context
    # A Rack env.
    class EnvSource
      # What Rails takes of an id that a client sends.
      UNFIT = /[^\w\-@]/
      ID_MAX = 255
      SESSION = "rack.session"
      private_constant :UNFIT, :ID_MAX, :SESSION

      def initialize(env)
        @env = env
      end

      def user
        resolver = Context.resolver or return identity
        return resolver.call(request) if @env.key?(SESSION)

        # A request that is asked for its session before there is one makes an empty one, which the session's middleware does not bear.
        begin
          resolver.call(request)
        ensure
          @env.delete(SESSION)
        end
      end

      def identity
        Identity.from(@env)
      end

      # Rails' own; else the client's or the server's X-Request-Id; else a new one, which Rails takes over.
      def request_id
        id = @env["action_dispatch.request_id"] and return id

        id = @env["HTTP_X_REQUEST_ID"].to_s.b.gsub(UNFIT, "")[0, ID_MAX]
        return id.force_encoding(Encoding::UTF_8) unless id.empty?

        require "securerandom"
        @env["HTTP_X_REQUEST_ID"] = SecureRandom.uuid
      end

      def trace
        parent = @env["HTTP_TRACEPARENT"]
        parent && [parent, @env["HTTP_TRACESTATE"]]
      end

      def label
        nil
      end

      private

      def request
        return ::ActionDispatch::Request.new(@env) if defined?(::ActionDispatch::Request)

        require "rack" unless defined?(::Rack::Request)
        ::Rack::Request.new(@env)
      end
    end

    # What is known already.
    FixedSource = Struct.new(:user, :identity, :request_id, :trace, :label)
    private_constant :EnvSource, :FixedSource
  end
end
