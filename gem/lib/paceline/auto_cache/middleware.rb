# frozen_string_literal: true

# Rack middleware, outermost: records what a GET reads. The answer has the same bytes.
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
        finished = -> { sink.call(recording, env, status, headers) }
        return [status, headers, Body.new(body, recording, &finished)] unless body.instance_of?(Array)

        finished.call
        answer
      end
    end
  end
end
