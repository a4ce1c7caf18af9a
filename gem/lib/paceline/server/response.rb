# frozen_string_literal: true

# Calls the app and puts its answer into frames: one frame when the body is known or comes at once, chunks when it streams
# (gatherer.rb). Closes each body exactly once, and never lets an exception of the app reach the channel's loop.
require_relative "changes"
require_relative "failure"
require_relative "forked_child"
require_relative "frames"
require_relative "gatherer"
require_relative "headers"
require_relative "raised"
require_relative "request_cost"
require_relative "stream"

module Paceline
  module Server
    class Response
      SMALL = 16 * 1024
      # Bytes of a body that is too large for one frame, in each of its frames.
      PIECE = 256 * 1024
      NO_PARTS = [].freeze
      NO_CALLBACKS = [].freeze
      private_constant :SMALL, :PIECE, :NO_PARTS, :NO_CALLBACKS

      def initialize(channel)
        @channel = channel
        @headers = Headers.new
        @cost = RequestCost.new(channel.patience)
      end

      # Serves one request, from the call of the app to the last callback.
      def answer(app, env)
        start(env)
        begin
          status, @app_headers, @body = app.call(env)
          leave_fork
          @app_headers = Changes.announce(@app_headers)
          @channel.surrendered? || respond(status)
        rescue Exception => e # an app may raise anything; the thread and the client must live on
          leave_fork(e)
          fail_with(e)
        end
        conclude
      end

      # Answers a request that the app can't be called for.
      def refuse(env, error)
        start(env)
        fail_with(error)
        conclude
      end

      # Leaves the client to the app: nothing of this response is sent any more. False if some of it has been.
      def renounce
        !@begun && (@gatherer.nil? || @gatherer.finish_unsent)
      end

      def begun?
        @begun || !!@gatherer&.sent?
      end

      def early_hints(headers)
        return if @begun || @gatherer&.sent?
        pairs = Headers.new.encode(headers)
        @channel.write(Frames.answer(Frames::EARLY_HINTS, number, pairs)) unless pairs.empty?
        nil
      end

      private

      def number
        @channel.request
      end

      # The application's code has returned, maybe in a process that it has forked.
      def leave_fork(error = nil)
        return unless ForkedChild.here?
        error = nil if error.is_a?(ClientGone)
        report(error) unless error.nil? || error.is_a?(SystemExit)
        ForkedChild.leave(error)
      end

      def respond(status)
        @status = status.to_i
        raise InvalidResponse, "status #{status.inspect}" unless @status.between?(100, 599)
        tell_raised if @status >= 500
        return if Native && @body.instance_of?(Array) && respond_at_once
        headers = @headers.encode(@app_headers)
        hijack = @headers.hijack
        raise InvalidResponse, "rack.hijack #{hijack.class}, which has no call" unless hijack.nil? || hijack.respond_to?(:call)
        if hijack && @env["rack.hijack?"]
          raw(headers) { |io| hijack.call(io) }
        elsif @status == 101 && callable?
          raw(headers) { |io| @body.call(io) }
        elsif bodiless?
          whole(headers, "", 0)
        elsif (path = file)
          send_file(headers, path)
        elsif (parts = known_parts)
          whole(headers, join(parts), parts.size)
        else
          stream(headers)
        end
      end

      # The common response, by the native part. False when there is something in it that wants to be looked at.
      def respond_at_once
        tell_record
        parts = bodiless? ? NO_PARTS : @body
        counted = @cost.stop(parts.size)
        done = Native.respond(@channel.fd, @channel.mailbox, number, @status, busy, counted, @app_headers, parts)
        @channel.note_written if done == :sent
        @begun = done
      end

      # What the page was made of (auto_cache.rb), before the frame that ends the response. Reads its body makes are known by then.
      def tell_record
        recording = @env["paceline.recording"] or return
        @env["paceline.recording"] = nil
        @channel.leave(Frames.answer(Frames::RECORD, number, recording.to_wire.b))
      end

      # What the application's own error page is about, before the frame that begins the response.
      def tell_raised
        error = Raised.behind(@env) or return
        @channel.leave(Frames.answer(Frames::RAISED, number, exception(error)))
      end

      # Pairs of ERROR and RAISED.
      def exception(error)
        failure = Failure.new(error, step: "request", root: @channel.worker.root).to_h
        Frames.pairs(failure.except("step"))
      end

      def bodiless?
        @env["REQUEST_METHOD"] == "HEAD" || @status == 204 || @status == 304 || @status < 200
      end

      def callable?
        @body.respond_to?(:call) && !@body.respond_to?(:each)
      end

      def file
        return unless @body.respond_to?(:to_path)
        path = @body.to_path
        return if path.nil?
        path = File.expand_path(path.to_s)
        path if File.file?(path) && File.readable?(path)
      end

      # The strings of a body that is known without waiting. In Rack 3 to_ary would close the body, so that its `each`,
      # which yields the same, is what leaves `close` to be called once, after the response.
      def known_parts
        return @body if @body.instance_of?(Array)
        return unless @body.respond_to?(:to_ary)
        return @body.to_ary unless @channel.worker.rack3
        parts = []
        @body.each { |part| parts << part }
        parts
      end

      def join(parts)
        return parts[0].to_s if parts.size == 1
        parts.join
      rescue Encoding::CompatibilityError
        parts.map { |part| part.to_s.b }.join
      end

      # A body that is known to the last byte, and was made of CHUNKS pieces.
      def whole(headers, body, chunks)
        size = body.bytesize
        return in_pieces(headers, body, chunks) if size > Frames::MAX_RESPONSE
        tell_record
        @begun = true
        head = Frames.response_head(number, @status, busy, @cost.stop(chunks), headers, size)
        if size.zero?
          @channel.leave(head)
        elsif size < SMALL && body.ascii_only?
          @channel.leave(head << body)
        else
          @channel.leave_both(head, body)
        end
      end

      # Too large for one frame, and yet its length is known.
      def in_pieces(headers, body, chunks)
        headers << "content-length\0" << body.bytesize.to_s << "\0" unless says_length?
        tell_record
        @begun = true
        @channel.write(Frames.head(number, @status, 0, headers))
        0.step(body.bytesize - 1, PIECE) do |at|
          raise ClientGone, "the client is gone" if @channel.cancelled?
          size = [PIECE, body.bytesize - at].min
          @channel.write_slice(Frames.chunk_head(number, size), body, at, size)
        end
        @channel.write(Frames.ending(Frames::END_, number, busy, @cost.stop(chunks)))
      end

      def says_length?
        @app_headers.any? { |name, _| name.to_s.casecmp?("content-length") }
      end

      def send_file(headers, path)
        tell_record
        @begun = true
        @channel.write(Frames.head(number, @status, Frames::FILE_FOLLOWS, headers) << Frames.answer(Frames::FILE, number, path) <<
                       Frames.ending(Frames::END_, number, busy, @cost.stop(0)))
      end

      def stream(headers)
        each = @body.respond_to?(:each)
        raise InvalidResponse, "the body has neither to_ary, each nor call" unless each || callable?
        immediate = immediate?(headers)
        leaves_count = immediate || !each || live?
        head = Frames.head(number, @status, leaves_count ? Frames::STREAM : 0, headers)
        @gatherer = Gatherer.new(@channel, number, head, immediate: immediate)
        @channel.worker.check_pool(@channel, @env) if leaves_count
        if each
          @gatherer.add_all(@body)
        else
          @body.call(Stream.new(@gatherer, @env["rack.input"]))
        end
        @gatherer.finish
        @channel.worker.check_pool(@channel, @env) if leaves_count
        if @gatherer.sent? || other_length?(headers, @gatherer.pending.bytesize)
          tell_record if @gatherer.sent?
          end_stream(Frames::END_)
        else
          whole(headers, @gatherer.pending, @gatherer.count)
        end
      end

      # The app promised more or less than it gave. The front does with that what it does with any stream of the wrong length.
      def other_length?(headers, size)
        promised = headers[/(?:\A|\0)content-length\0(\d+)\0/in, 1]
        !promised.nil? && promised.to_i != size
      end

      # Events, and what asks by nginx's own word not to be held back.
      def immediate?(headers)
        headers.match?(/(?:\A|\0)(?:content-type\0text\/event-stream|x-accel-buffering\0no\0)/in)
      end

      # Whether an action of ActionController::Live writes this, in a thread of its own.
      def live?
        defined?(ActionController::Live) && @env["action_controller.instance"].is_a?(ActionController::Live)
      end

      def end_stream(type)
        @begun = true
        @gatherer.conclude(Frames.ending(type, number, busy, @cost.stop(@gatherer.count)))
      end

      # Hands the channel itself to the app, right after the head.
      def raw(headers)
        @begun = true
        io = @channel.surrender(Frames.head(number, @status, Frames::RAW, headers))
        begin
          yield io
        rescue Exception
          io.close
          raise
        end
      end

      # BUSY when something is left to do once the front has the response.
      def busy
        @flagged = @body.respond_to?(:close) || !callbacks("rack.after_reply").empty? || !callbacks("rack.response_finished").empty?
        @flagged ? Frames::BUSY : 0
      end

      # What the app has made of the env is no reason to leave a request without an answer.
      def callbacks(name)
        list = @env[name]
        list.is_a?(Array) ? list : NO_CALLBACKS
      rescue Exception
        NO_CALLBACKS
      end

      def fail_with(error)
        @error = error
        gone = error.is_a?(ClientGone)
        # What was gathered must not leave while the error is written: an error page takes its place.
        @gatherer&.finish
        report(error) unless gone
        return if @channel.surrendered?
        return if !gone && !begun? && handled?(error)
        return end_stream(Frames::ABORT) if @gatherer&.sent?
        return @channel.write(Frames.ending(Frames::ABORT, number, busy, @cost.stop(0))) if @begun
        @begun = true
        @channel.leave(Frames.error(number, busy, @cost.stop(@gatherer ? @gatherer.count : 0), exception(error)))
      rescue SystemCallError, IOError
        nil # the front is gone
      end

      # `lowlevel_error_handler` of config/puma.rb: its Rack response is the answer. False: there is none, or it failed.
      def handled?(error)
        handler = @channel.worker.hooks&.lowlevel_error_handler or return false
        return false if @handled
        @handled = true
        arguments = [error, @env, 500].first(handler_size(handler))
        @body.close if @body.respond_to?(:close)
        @body = @gatherer = nil
        status, headers, @body = handler.call(*arguments)
        @app_headers = headers || {}
        @body ||= NO_PARTS
        respond(status)
        true
      rescue Exception => e # of the application's own code
        leave_fork(e)
        report(e) unless e.is_a?(ClientGone)
        false
      end

      # Puma gives one argument, two, or three: the error, the env, the status.
      def handler_size(handler)
        arity = handler.respond_to?(:arity) ? handler.arity : handler.method(:call).arity
        [1, 2].include?(arity) ? arity : 3
      end

      def report(error)
        errors = @env["rack.errors"] || $stderr
        words = Failure.new(error, step: "request", root: @channel.worker.root).report
        errors.write("#{@env["REQUEST_METHOD"]} #{@env["PATH_INFO"]}: ".b << words)
        errors.flush
      rescue Exception # of an object that the app has put there
        nil
      end

      # close, then the callbacks, each whatever became of the others; then the thread is free.
      def conclude
        guard { @body.close } if @body.respond_to?(:close)
        callbacks("rack.response_finished").reverse_each do |callback|
          guard { callback.call(@env, @status, @app_headers, @error) }
        end
        callbacks("rack.after_reply").each { |callback| guard { callback.call } }
        @channel.leave(Frames.answer(Frames::IDLE, number)) if @flagged && !@channel.surrendered?
      ensure
        @body = @env = @app_headers = @error = @gatherer = nil
      end

      def guard
        yield
        leave_fork
      rescue ClientGone => e
        leave_fork(e)
      rescue Exception => e
        leave_fork(e)
        report(e)
      end

      def start(env)
        @env = env
        @status = @app_headers = @body = @error = @gatherer = nil
        @begun = @flagged = @handled = false
        Changes.start
        @cost.start(env)
      end
    end
  end
end
