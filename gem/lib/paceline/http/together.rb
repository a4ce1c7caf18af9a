# frozen_string_literal: true

# Several calls at once in one thread: each is a fiber that gives way where it would wait for a socket. Opening a connection, which blocks, is
# done by a thread. It knows nothing of HTTP.
module Paceline
  module HTTP
    class Together
      # Ends a fiber that nobody waits for any more. No StandardError: nobody is to rescue it.
      class Abandoned < Exception; end # rubocop:disable Lint/InheritException
      Wait = Struct.new(:io, :event, :moment)
      private_constant :Abandoned, :Wait

      # What runs this fiber, or nil.
      def self.current
        Thread.current[:paceline_together]
      end

      # Calls the jobs, `at_once` of them at a time, in their order. They rescue what is theirs: what one raises ends all.
      def self.run(jobs, at_once)
        new(jobs, at_once).run
      end

      def initialize(jobs, at_once)
        @jobs = jobs.dup
        @at_once = at_once
        @waits = {}
        @done = Thread::Queue.new
        @threads = {}
      end

      def run
        start
        until @waits.empty? && @threads.empty?
          turn
          start
        end
      ensure
        abandon
        @wake&.close
        @woken&.close
      end

      # For a job: true when the socket is ready, nil when `timeout` (s, or nil) is over.
      def wait(io, event, timeout)
        @waits[Fiber.current] = Wait.new(io, event, timeout && HTTP.now + timeout)
        Fiber.yield
      end

      # For a job: what the block returns or raises, while others go on.
      def aside
        @woken, @wake = IO.pipe unless @wake
        fiber, done, wake = Fiber.current, @done, @wake
        thread = Thread.new do
          Thread.current.report_on_exception = false
          yield
        ensure
          done << fiber
          begin
            wake.write_nonblock(".", exception: false)
          rescue IOError # nobody waits any more
            nil
          end
        end
        @threads[fiber] = thread
        Fiber.yield
        thread.value
      end

      private

      def start
        while @waits.size + @threads.size < @at_once && (job = @jobs.shift)
          fiber = Fiber.new(blocking: true) do
            Thread.current[:paceline_together] = self
            job.call
          end
          fiber.resume
        end
      end

      # Waits until something can go on, and lets it.
      def turn
        readers = @waits.each_value.filter_map { |wait| wait.io if wait.event == :read }
        readers << @woken unless @threads.empty?
        writers = @waits.each_value.filter_map { |wait| wait.io if wait.event == :write }
        ready = IO.select(readers, writers, nil, patience)
        readable, writable = ready ? ready.first(2).map { |ios| ios.each_with_object({}.compare_by_identity) { |io, found| found[io] = true } } : [{}, {}]
        resume_threads if readable[@woken]
        now = HTTP.now
        @waits.to_a.each do |fiber, wait|
          go_on = (wait.event == :read ? readable : writable)[wait.io]
          next unless go_on || (wait.moment && wait.moment <= now)

          @waits.delete(fiber)
          fiber.resume(go_on)
        end
      end

      def patience
        moment = @waits.each_value.filter_map(&:moment).min or return
        [moment - HTTP.now, 0].max
      end

      def resume_threads
        @woken.read_nonblock(64, exception: false)
        until @done.empty?
          fiber = @done.pop
          @threads.delete(fiber)
          fiber.resume
        end
      end

      def abandon
        @threads.each_value(&:kill)
        (@waits.keys + @threads.keys).each do |fiber|
          fiber.raise(Abandoned) if fiber.alive?
        rescue Abandoned
          nil
        end
      end
    end
  end
end
