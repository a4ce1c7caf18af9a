# frozen_string_literal: true

# Calls the app and puts its answer into frames: one frame when the body is known, a frame per chunk when it streams.
# Closes each body exactly once, and never lets an exception of the app reach the channel's loop.
require_relative "frames"
require_relative "headers"
require_relative "hijack"
require_relative "failure"

module Paceline
  class Response
    SMALL = 16 * 1024
    NO_CALLBACKS = [].freeze
    private_constant :SMALL, :NO_CALLBACKS

    def initialize(channel)
      @channel = channel
      @headers = Headers.new
      @counted = Frames::Counters.new(0, 0, 0, 0, 0, "")
    end

    # Serves one request, from the call of the app to the last callback.
    def answer(app, env)
      start(env)
      begin
        status, @app_headers, @body = app.call(env)
        @channel.surrendered? || respond(status)
      rescue Exception => e # an app may raise anything; the thread and the client must live on
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

    # One piece of a streaming body; answers its size.
    def chunk(bytes)
      size = bytes.bytesize
      return 0 if size.zero?
      raise ClientGone, "the client is gone" if @channel.cancelled?
      @counted.chunks += 1
      if size <= Frames::MAX_CHUNK
        @channel.write_both([size, Frames::CHUNK].pack("NC"), bytes)
      else
        each_slice(bytes) { |slice| @channel.write_both([slice.bytesize, Frames::CHUNK].pack("NC"), slice) }
      end
      size
    rescue SystemCallError
      raise ClientGone, "the front is gone"
    end

    def early_hints(headers)
      return if @begun
      pairs = Headers.new.encode(headers)
      @channel.write(Frames.frame(Frames::EARLY_HINTS, pairs)) unless pairs.empty?
      nil
    end

    private

    def respond(status)
      @status = status.to_i
      raise InvalidResponse, "status #{status.inspect}" unless @status.between?(100, 599)
      headers = @headers.encode(@app_headers)
      hijack = @headers.hijack
      if hijack && @env["rack.hijack?"]
        raw(headers) { |io| hijack.call(io) }
      elsif @status == 101 && callable?
        raw(headers) { |io| @body.call(io) }
      elsif bodiless?
        whole(headers, "")
      elsif (path = file)
        send_file(headers, path)
      elsif (parts = known_parts)
        @counted.chunks = parts.size
        whole(headers, join(parts))
      else
        stream(headers)
      end
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

    def whole(headers, body)
      size = body.bytesize
      return in_pieces(headers, body) if size > Frames::MAX_RESPONSE
      stop
      @begun = true
      head = Frames.response_head(@status, busy, @counted, headers, size)
      if size.zero?
        @channel.write(head)
      elsif size < SMALL && body.ascii_only?
        @channel.write(head << body)
      else
        @channel.write_both(head, body)
      end
    end

    # Too large for one frame, and yet its length is known.
    def in_pieces(headers, body)
      headers << "content-length\0" << body.bytesize.to_s << "\0" unless says_length?
      begin_with(headers)
      each_slice(body) do |slice|
        raise ClientGone, "the client is gone" if @channel.cancelled?
        @channel.write_both([slice.bytesize, Frames::CHUNK].pack("NC"), slice)
      end
      finish_with(Frames::END_)
    end

    def says_length?
      @app_headers.any? { |name, _| name.to_s.casecmp?("content-length") }
    end

    def send_file(headers, path)
      stop
      @begun = true
      @channel.write(Frames.head(@status, Frames::FILE_FOLLOWS, headers) << Frames.frame(Frames::FILE, path) <<
                     Frames.ending(Frames::END_, busy, @counted))
    end

    def stream(headers)
      each = @body.respond_to?(:each)
      raise InvalidResponse, "a body that is no Array and has neither each nor call" unless each || callable?
      begin_with(headers)
      if each
        @body.each { |part| chunk(part.to_s) }
      else
        @body.call(Stream.new(self, @env["rack.input"]))
      end
      finish_with(Frames::END_)
    end

    # Hands the channel itself to the app, right after the head.
    def raw(headers)
      @begun = true
      @channel.write(Frames.head(@status, Frames::RAW, headers))
      io = @channel.surrender
      begin
        yield io
      rescue Exception
        io.close
        raise
      end
    end

    def begin_with(headers)
      @begun = true
      @channel.write(Frames.head(@status, 0, headers))
    end

    def finish_with(type)
      stop
      @channel.write(Frames.ending(type, busy, @counted))
    end

    def each_slice(bytes)
      at = 0
      while at < bytes.bytesize
        yield bytes.byteslice(at, Frames::MAX_CHUNK)
        at += Frames::MAX_CHUNK
      end
    end

    # BUSY when something is left to do once the front has the response.
    def busy
      @flagged = @body.respond_to?(:close) || !callbacks("rack.after_reply").empty? || !callbacks("rack.response_finished").empty?
      @flagged ? Frames::BUSY : 0
    end

    def callbacks(name)
      @env[name] || NO_CALLBACKS
    end

    def fail_with(error)
      @error = error
      gone = error.is_a?(ClientGone)
      report(error) unless gone
      return if @channel.surrendered?
      return finish_with(Frames::ABORT) if @begun
      stop
      failure = Failure.new(error, step: "request", root: @channel.worker.root).to_h
      pairs = Frames.pairs(failure.slice("class", "message", "file", "line", "backtrace"))
      @begun = true
      @channel.write(Frames.error(busy, @counted, pairs))
    rescue SystemCallError, IOError
      nil # the front is gone
    end

    def report(error)
      errors = @env["rack.errors"] || $stderr
      words = Failure.new(error, step: "request", root: @channel.worker.root).report
      errors.write("#{@env["REQUEST_METHOD"]} #{@env["PATH_INFO"]}: ".b << words)
      errors.flush
    rescue StandardError
      nil
    end

    # close, then the callbacks, each whatever became of the others; then the thread is free.
    def conclude
      guard { @body.close } if @body.respond_to?(:close)
      callbacks("rack.response_finished").reverse_each do |callback|
        guard { callback.call(@env, @status, @app_headers, @error) }
      end
      callbacks("rack.after_reply").each { |callback| guard { callback.call } }
      @channel.write(Frames.frame(Frames::IDLE)) if @flagged
    ensure
      @body = @env = @app_headers = @error = nil
    end

    def guard
      yield
    rescue ClientGone
      nil
    rescue Exception => e
      report(e)
    end

    def start(env)
      @env = env
      @status = @app_headers = @body = @error = nil
      @begun = @flagged = false
      Thread.current[:paceline_spans] = nil
      @counted.chunks = 0
      @counted.gc = gc_time
      @counted.allocated = GC.stat(:total_allocated_objects)
      @counted.started = Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond)
    end

    def stop
      @counted.finished = Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond)
      @counted.allocated = GC.stat(:total_allocated_objects) - @counted.allocated
      @counted.gc = gc_time - @counted.gc
      spans = Thread.current[:paceline_spans]
      @counted.spans = spans ? Frames.fields(*spans.flat_map { |name, (total, count)| [name, total.to_i, count] }) : ""
    end

    # Whole-process garbage collection in microseconds.
    if GC.respond_to?(:total_time)
      def gc_time = GC.total_time / 1000
    else
      def gc_time = (GC.stat(:time) || 0) * 1000
    end
  end
end
