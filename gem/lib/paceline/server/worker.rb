# frozen_string_literal: true

# A forked worker: runs the app in its threads, one channel to the front each. Its main thread only listens to the
# front's commands. Loads no app unless told to, and never outlives the front.
require_relative "../cache"
require_relative "../spans"
require_relative "channel"
require_relative "control"
require_relative "database"
require_relative "failure"
require_relative "flusher"
require_relative "fork_safety"
require_relative "forked_child"
require_relative "heap_figures"
require_relative "heap_room"
require_relative "out_of_band_gc"
require_relative "parent_death"
require_relative "raised"

module Paceline
  module Server
    class Worker
      IGNORED = %w[INT QUIT HUP USR1 USR2 TTIN TTOU].freeze
      # So many of what keeps it from being forked are told.
      NAMED = 3

      # Bytes of an answer that a thread leaves in its socket without waiting for the front, at most. The kernel allows a worker no more than
      # net.core.wmem_max.
      SEND_BUFFER = 512 * 1024
      private_constant :IGNORED, :NAMED

      def self.now
        Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond)
      end

      attr_reader :app, :control, :hooks, :rack3

      # Sends what streaming bodies have left lying for too long.
      attr_reader :flusher

      def initialize(control, index:, threads:, settings:, app:, loader:, hooks:, parent:)
        @control = control
        @index = index
        @size = threads
        @settings = settings
        @app = app
        @loader = loader
        @hooks = hooks
        @parent = parent
        @draining = false
        @channels = []
        @busy_longer = []
        @io_bound_lock = Mutex.new
        @io_bound_now = 0
      end

      def multithread?
        @size > 1 || @settings["stream_threads"].to_i.positive?
      end

      def root
        @settings["root"]
      end

      # Seconds that a request may take (app_hard_timeout), or nil.
      def patience
        time = @settings["app_hard_timeout"].to_s
        time.empty? ? nil : time.to_f
      end

      # What `env["puma.mark_as_io_bound"]` is: the thread that calls it is one more, up to max_io_threads. Nil: nobody asks for it.
      def io_bound
        return unless @hooks && (most = @hooks.options[:max_io_threads].to_i).positive?
        @io_bound ||= -> { mark_as_io_bound(most) }
      end

      # A request that was marked has ended.
      def io_bound_ended
        @io_bound_lock.synchronize { @io_bound_now -= 1 }
      end

      def draining?
        @draining
      end

      # Returns when it has drained, or with a new control socket when it is to be a mold; otherwise the process ends here.
      def run
        Process.setproctitle("paceline worker #{@index} [#{@settings["site"]}]")
        ParentDeath.follow
        exit!(1) unless Process.ppid == @parent
        @shared = @settings["refork"] == "1" ? ForkSafety.open_ends : []
        @figures = HeapFigures.new
        @wake, @waker = IO.pipe
        ForkedChild.guard(self)
        set_traps
        redirect
        srand
        boot
        listen
        return @successor if @successor
        shut_down
        nil
      rescue Exception => e # nothing may unwind into the preloader's frames
        ForkedChild.leave(e) if ForkedChild.here?
        warn "paceline worker #{@index}: #{e.class}: #{e.message}"
        exit!(1)
      end

      # In a child that the application has forked.
      def let_go
        @channels.compact.each(&:let_go)
        [@control, @wake, @waker].each(&:close)
        term = trap("TERM", "DEFAULT")
        trap("TERM", term) unless term.equal?(@on_term) # the application's own
      end

      # A thread has answered and is about to wait for its next request.
      def rested(channel)
        @heap_room&.check
        out_of_band if @out_of_band && none_busy?
        return unless @collector && channel.resting?
        @collector.run(channel.io) { none_busy? }
      end

      # Gives thread `number` a fresh channel; the front gets the other end. SystemCallError: there is none, and the front has not heard of it.
      def open_channel(number)
        ours, theirs = UNIXSocket.pair
        ours.setsockopt(:SOCKET, :SNDBUF, SEND_BUFFER)
        mailbox = Native::Mailbox.open if Native # nil in a process that could not tell its children
        frames = [[Frames::CHANNEL, Frames.fields(number), theirs]]
        # Threads open channels at the same time: a mailbox belongs to the next channel that the front is given.
        frames.unshift([Frames::MAILBOX, Frames.fields(number), IO.for_fd(mailbox.fileno, autoclose: false)]) if mailbox
        @control.send_together(*frames)
        mailbox&.sent
        theirs.close
        [ours, mailbox]
      end

      # Says once that streams hold connections to the database, and that all that there may be at once would want more than the pool has.
      def check_pool(channel, env)
        streams = @settings["stream_threads"].to_i
        return if @pool_checked || streams.zero?
        size = Database.held_pool_size(channel) or return
        @pool_checked = true
        return if size >= @size + streams
        warn "paceline: #{env["REQUEST_METHOD"]} #{env["PATH_INFO"]} is a stream and holds a connection to the database as long as it lasts. This worker has " \
             "#{@size} threads and up to #{streams} streams, and the pool #{size} connections: set the pool in config/database.yml to #{@size + streams}, or " \
             "stream_threads to #{[size - @size, 0].max} (docs/streams.md)"
      end

      # A frame from the front that makes no sense: nothing that follows can be trusted.
      def broken(error)
        warn "paceline worker #{@index}: #{error.class}: #{error.message}"
        exit!(1)
      end

      private

      def mark_as_io_bound(most)
        channel = Thread.current[:paceline_channel] or return
        @io_bound_lock.synchronize do
          @io_bound_now += 1 if @io_bound_now < most && channel.step_aside
        end
        nil
      end

      def none_busy?
        @threads.none? { |thread| thread[:paceline_channel]&.busy? }
      end

      # One at a time: the thread that was the last to answer.
      def out_of_band
        return unless @out_of_band.try_lock
        begin
          @hooks.run_hooks_aside(:out_of_band)
        ensure
          @out_of_band.unlock
        end
      end

      def set_traps
        IGNORED.each { |name| trap(name) {} } # "IGNORE" would pass to the app's children
        trap("CHLD", "DEFAULT")
        trap("TERM", @on_term = ->(_) { @waker.write_nonblock("T", exception: false) })
      end

      # What the app prints goes to the front, which knows which worker it came from.
      def redirect
        { "stdout" => STDOUT, "stderr" => STDERR }.each do |name, io|
          reading, writing = IO.pipe
          @control.send(Frames::OUTPUT, Frames.fields(name), fd: reading)
          reading.close
          Channel.make_blocking(writing) # the app's children share it, and may not expect EAGAIN
          io = IO.for_fd(io == STDOUT ? 1 : 2, "w", autoclose: false) if io.closed? # by the app; what its libraries print comes here
          io.reopen(writing)
          io.sync = true
          writing.close
        end
      end

      def boot
        @app ||= @loader.load(@hooks&.app)
        ForkedChild.leave if ForkedChild.here?
        Raised.watch(@settings["environment"])
        @rack3 = AppLoader.versions["rack"].to_i >= 3
        @flusher = Flusher.new
        Native.header_classes = Headers.plain_hashes if Native
        @hooks&.run_hooks(:before_worker_boot, @index - 1)
        AutoCache.start if auto_cache?
        @threads = []
        @collector = OutOfBandGC.new if @settings["oob_gc"] == "1"
        @heap_room = HeapRoom.new if HeapRoom.wanted?
        @out_of_band = Mutex.new if @hooks&.hook?(:out_of_band)
        1.upto(@size) { |number| start_thread(number) }
        @control.send(Frames::READY)
        booted if @settings["workers"] == "1"
      rescue Control::FrontGone
        raise
      rescue Exception => e # as in the preloader: whatever is raised here is the app's failure
        report(e)
      end

      def report(error)
        ForkedChild.leave(error) if ForkedChild.here?
        failure = Failure.new(error, step: @app ? "ready" : @loader.current_step, root: @settings["root"])
        @control.send(Frames::WORKER_FAILED, Frames.pairs(failure.of_start))
        exit!(1)
      end

      # The thread comes before its channel: where there can be none the front has no channel that nobody reads.
      def start_thread(number)
        handed = Thread::Queue.new
        thread = Thread.new { (channel = handed.pop) && live(number, channel) }
        channel = Channel.new(self, number, *open_channel(number))
        @channels[number - 1] = channel
        thread.name = "paceline #{number}"
        thread[:paceline_channel] = channel
        @threads[number - 1] = thread
        handed << channel
      ensure
        handed&.close # without a channel the thread ends
      end

      # A thread that the app kills is replaced; the front sees its channel end and a new one come.
      def live(number, channel)
        channel.run
      ensure
        start_thread(number) unless @draining || ForkedChild.here? || (channel.ended? && !@busy_longer.delete(number))
      end

      # One thread more, in the place of one that has a stream. When there is one too many the front closes a channel, and its thread ends.
      def start_spare
        return if @draining
        start_thread((1..).find { |number| !@threads[number - 1]&.alive? })
      rescue ThreadError, SystemCallError => e
        warn "paceline: no thread in the place of one that has a stream: #{e.message}"
      end

      # Until there is nothing more to serve. EOF: the front is gone, and so is the reason to live.
      def listen
        loop do
          ready = @control.buffered? ? [[@control.io]] : IO.select([@control.io, @wake])
          if ready[0].include?(@wake)
            byte = @wake.read_nonblock(64, exception: false)
            drain if byte.include?("T")
            return if byte.include?("E") && @threads.none?(&:alive?)
            return if byte.include?("M") && become_mold
          end
          obey if ready[0].include?(@control.io)
        end
      end

      def obey
        type, payload = @control.read
        case type
        when nil then exit!(0)
        when Frames::DRAIN then drain(Frames.parse_fields(payload).first)
        when Frames::MOLD then rest(Integer(Frames.parse_fields(payload).first, 10))
        when Frames::ASK_BACKTRACE then tell_backtrace(Frames.parse_fields(payload).first)
        when Frames::SPARE then start_spare
        when Frames::ASK_MEMORY then @control.send(Frames::MEMORY, Frames.pairs(@figures.to_h))
        end
      end

      # `interrupt`: after so many milliseconds an exception ends what the threads still do. Nil: they are waited for.
      def drain(interrupt = nil)
        return if @draining
        @draining = true
        limit = interrupt && (Worker.now + (Integer(interrupt, 10) * 1000))
        Thread.new do
          @threads.each { |thread| thread[:paceline_channel]&.drain }
          @threads.each { |thread| thread.join(limit && [(limit - Worker.now) / 1e6, 0].max) }
          @threads.each { |thread| thread[:paceline_channel]&.interrupt(thread) } if limit
          @threads.each(&:join)
          @waker.write("E")
        end
      end

      # The front gives this worker no more requests, and closes a channel as soon as its thread is idle: so threads end.
      # `patience`: what requests in hand may take, in seconds.
      def rest(patience)
        @resting = Thread.new do
          limit = Worker.now + (patience * 1_000_000)
          while (thread = @threads.find(&:alive?)) && (left = limit - Worker.now).positive?
            thread.join(left / 1e6)
          end
          @waker.write("M")
        end
      end

      # True when this process can be forked from now: it will serve no more. Otherwise it goes on as before.
      def become_mold
        @resting.join
        return false if @draining
        if (busy = @threads.count(&:alive?)).positive?
          go_on("#{busy} of its threads #{busy == 1 ? "is" : "are"} still in a request or a stream", "busy")
        elsif (why = obstacle_to_fork)
          after_refork
          go_on(why)
        else
          hand_over
        end
        !@successor.nil?
      end

      # In one line, with what to do about it.
      def obstacle_to_fork
        @hooks&.run_hooks(:before_refork)
        Database.disconnect
        HTTP.close if defined?(HTTP) && HTTP.respond_to?(:close)
        AutoCache.leave if auto_cache?
        obstacles = ForkSafety.new(threads: [@flusher.thread].compact, shared: @shared,
                                   descriptors: [@control.io, @wake, @waker].map(&:fileno)).obstacles
        more = obstacles.size - NAMED
        obstacles = obstacles.first(NAMED).push("and #{more} more") if more.positive?
        "#{obstacles.join("; ")}. End it in before_refork of config/puma.rb" if obstacles.any?
      rescue StandardError, ScriptError => e
        "before_refork raised #{e.class}: #{e.message} (#{e.backtrace&.first})"
      end

      def hand_over
        trap("TERM") {} # it wrote to a pipe that closes now
        @flusher.thread&.kill&.join
        ours, theirs = UNIXSocket.pair
        @control.send(Frames::PROMOTED, fd: theirs)
        @channels.clear
        [theirs, @control, @wake, @waker].each(&:close)
        @successor = Control.new(ours)
      end

      # Undoes before_refork, where there is to be no fork.
      def after_refork
        AutoCache.start if auto_cache?
        @hooks&.run_hooks_aside(:after_refork)
      end

      def auto_cache?
        defined?(AutoCache) && !AutoCache.journal.nil?
      end

      # Those threads that were still busy go on when they have answered: whether the front then has closed their channels or not. It closes those
      # that are too many.
      def go_on(*why)
        @control.send(Frames::UNSAFE, Frames.fields(*why))
        1.upto(@threads.size) do |number|
          @threads[number - 1].alive? ? @busy_longer << number : start_thread(number)
        end
      end

      def tell_backtrace(number)
        thread = @threads[Integer(number, 10) - 1]
        lines = thread&.backtrace || []
        @control.send(Frames::BACKTRACE, Frames.fields(number, lines.join("\n")))
      rescue ArgumentError, TypeError
        nil
      end

      def shut_down
        @hooks&.run_hooks_aside(:before_worker_shutdown, @index - 1)
        @hooks&.run_hooks_aside(:after_stopped) if @settings["workers"] == "1"
      end

      # This worker is the whole server, as Puma's single mode has one.
      def booted
        return unless @hooks&.hook?(:after_booted)
        Thread.new { @hooks.run_hooks_aside(:after_booted) }
      end
    end
  end
end
