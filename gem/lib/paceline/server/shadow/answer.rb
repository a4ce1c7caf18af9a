# frozen_string_literal: true

# Calls the application and takes its answer as a worker does (response.rb): the body by `to_path`, `to_ary`, `each` or `call`, and then closes it.
# It sends nothing to anybody, and raises nothing that the application raises.
require_relative "../changes"
require_relative "../failure"
require_relative "../forked_child"
require_relative "../frames"
require_relative "../headers"
require_relative "../stream"

module Paceline
  module Server
    module Shadow
      class Answer
        # Of Rack's answer; 500 if there was none.
        attr_reader :status

        # Pairs of name and value.
        attr_reader :headers

        # What the application raised, or nil.
        attr_reader :error

        # `delivery`: where the body's pieces go.
        def initialize(delivery, rack3:)
          @delivery = delivery
          @rack3 = rack3
          @status = 500
          @headers = []
        end

        # What is measured: until the body is closed.
        def take(app, env)
          @env = env
          Changes.start
          status, @app_headers, @body = app.call(env)
          @app_headers = Changes.announce(@app_headers)
          respond(status)
        rescue Exception => e # an application may raise anything
          fail_with(e)
        ensure
          guard { @body.close } if @body.respond_to?(:close)
          ForkedChild.leave(@error) if ForkedChild.here?
        end

        # What comes after the response.
        def conclude
          list = @env["rack.response_finished"]
          return unless list.is_a?(Array)

          list.reverse_each { |callback| guard { callback.call(@env, @status, @app_headers, @error) } }
        end

        def body
          @error ? "" : @file ? File.binread(@file) : @delivery.body
        end

        def pieces
          @file ? 1 : @delivery.count
        end

        private

        def respond(status)
          @status = status.to_i
          raise InvalidResponse, "status #{status.inspect}" unless @status.between?(100, 599)

          @headers = Frames.parse_fields(Headers.new.encode(@app_headers)).each_slice(2).to_a
          return if @env["REQUEST_METHOD"] == "HEAD" || @status == 204 || @status == 304 || @status < 200 || (@file = file)

          @delivery.start(@status, @headers, length)
          deliver
          @delivery.finish
        end

        def file
          path = @body.to_path if @body.respond_to?(:to_path)
          path = path && File.expand_path(path.to_s)
          path if path && File.file?(path) && File.readable?(path)
        end

        # What the application says, or what a server sees at once.
        def length
          said = @headers.assoc("Content-Length") || @headers.assoc("content-length")
          return said[1] if said

          @body[0].bytesize if @body.is_a?(Array) && @body.size == 1
        end

        def deliver
          # Rails 6.1 has bodies that answer to it with nil, as those of redirects.
          list = @body.to_ary if @body.respond_to?(:to_ary) && !@rack3
          if list
            list.each { |piece| @delivery.add(piece.to_s) }
          elsif @body.respond_to?(:each)
            @body.each { |piece| @delivery.add(piece.to_s) }
          elsif @body.respond_to?(:call)
            @body.call(Stream.new(@delivery, @env["rack.input"]))
          else
            raise InvalidResponse, "the body has neither to_ary, each nor call"
          end
        end

        def fail_with(error)
          @error = error
          @status = 500
          @headers = []
          @file = nil
          @delivery.finish
        end

        def guard
          yield
        rescue Exception => e
          @error ||= e
        end
      end
    end
  end
end
