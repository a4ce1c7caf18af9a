# frozen_string_literal: true

# A response's body that is read while the request is still recorded. Its bytes and its other methods are the body's own.
module Paceline
  module AutoCache
    class Body
      # The block is called once, when the body is closed.
      def initialize(body, recording, &finished)
        @body = body
        @recording = recording
        @finished = finished
      end

      def each(&)
        AutoCache.with(@recording) { @body.each(&) }
      end

      def close
        AutoCache.with(@recording) { @body.close } if @body.respond_to?(:close)
      ensure
        finished, @finished = @finished, nil
        finished&.call
      end

      def respond_to_missing?(name, all = false)
        name != :to_str && @body.respond_to?(name, all)
      end

      # to_ary, to_path, and what middleware asks for.
      def method_missing(name, ...)
        return super if name == :to_str || !@body.respond_to?(name)

        @recording.untracked("the body takes the connection", "") if name == :call
        result = AutoCache.with(@recording) { @body.public_send(name, ...) }
        # Rack: who takes it as an array closes nothing more.
        close if name == :to_ary
        result
      end
    end
  end
end
