# frozen_string_literal: true

# Rack middleware, outermost: records what a GET reads. It changes nothing of the answer.
module Paceline
  module AutoCache
    class Middleware
      def initialize(app)
        @app = app
      end

      def call(env)
        sink = AutoCache.sink
        return @app.call(env) unless sink && env["REQUEST_METHOD"] == "GET" && AutoCache.recording.nil?

        recording = Recording.new(AutoCache.readers)
        read = Env.of(env)
        begin
          answer = AutoCache.with(recording) { @app.call(read) }
        ensure
          # What the application left there is for the server.
          env.replace(read)
        end
        status, headers, body = answer
        whole = body.respond_to?(:to_ary) || body.respond_to?(:to_path)
        recording.untracked("the body is made while it is sent (#{body.class})", "") unless whole
        sink.call(recording, env, status, headers)
        answer
      end
    end
  end
end
