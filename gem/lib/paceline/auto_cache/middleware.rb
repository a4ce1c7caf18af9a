# frozen_string_literal: true

# Rack middleware, outermost: records what a GET reads. The answer has the same bytes.
module Paceline
  module AutoCache
    class Middleware
      # `samples`: which requests are recorded; nil: all.
      def initialize(app, samples: nil)
        @app = app
        @samples = samples
      end

      def call(env)
        sink = AutoCache.sink
        return @app.call(env) unless sink && env["REQUEST_METHOD"] == "GET" && AutoCache.recording.nil?
        return unrecorded(env) if @samples && !@samples.take?
        return @app.call(env) unless AutoCache.joined?

        recording = Recording.new(AutoCache.readers)
        recording.value("request", "release", AutoCache.release, place: "") if AutoCache.release
        read = Env.of(env)
        begin
          answer = AutoCache.with(recording) { @app.call(read) }
          AutoCache.check_session(recording, read["rack.session"])
        ensure
          recording.end! unless answer
          # What the application left there is for the server.
          env.replace(read)
        end
        env["paceline.recording"] = recording
        status, headers, body = answer
        # A file that is sent as it is, nobody has read yet.
        path = body.to_path if body.respond_to?(:to_path)
        recording.file(File.expand_path(path), "") if path
        finished = lambda do
          recording.end!
          sink.call(recording, env, status, headers)
        end
        return [status, headers, Body.new(body, recording, &finished)] if !body.instance_of?(Array) && body.respond_to?(:each)

        recording.untracked("the body takes the connection", "") unless body.respond_to?(:each)
        finished.call
        answer
      end

      private

      def unrecorded(env)
        AutoCache.rest
        @app.call(env)
      end
    end
  end
end
