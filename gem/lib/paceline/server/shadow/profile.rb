# frozen_string_literal: true

# Where one replayed request spends its time, by the application's lines: the stack of its thread is read again and again, and each reading stands for the time
# since the one before. That slows a request down, so that such a replay is never measured.
#
# A thread reads it while the request waits. While the request computes, that thread would get Ruby's lock ten times a second only: then a signal does it,
# which comes as processor time is used (ITIMER_PROF of setitimer(2)) and is handled in the main thread, where requests are replayed.
require_relative "confinement"
require_relative "place"

module Paceline
  module Server
    module Shadow
      class Profile
        # Seconds from one reading to the next, at least: the kernel's own clock may be slower.
        INTERVAL = 0.001
        # What is told, the lines with most time first.
        MAX_LINES = 40
        # A folder of Ruby's own library or of Debian's gems, and a gem's.
        LIBRARY = %r{/(?:ruby/\d[^/]*|vendor_ruby(?:/\d[^/]*)?|site_ruby(?:/\d[^/]*)?)/([^/.]+)[^/]*(?:/|\.rb\z)}
        GEM = %r{/gems/([^/]+?)-\d[^/]*/}
        # As in "block (2 levels) in index".
        WITHIN = /\A(?:(?:block(?: \(\d+ levels\))?|rescue|ensure) in )+/
        SHADOW = "#{__dir__}/".freeze
        private_constant :SHADOW, :INTERVAL, :MAX_LINES, :LIBRARY, :GEM, :WITHIN

        # `root`: the application's folder.
        def initialize(root)
          @place = Place.new(root)
          @times = Hash.new(0.0)
          @readings = 0
        end

        # Reads the stack of this thread while the block runs. Returns what the block returns.
        def around(&block)
          @thread = Thread.current
          @last = now
          @over = false
          reader = Thread.new { read(@thread.backtrace_locations) while sleep(INTERVAL) && !@over }
          with_signals(&block)
        ensure
          @over = true
          reader&.join
        end

        # Of each line how long it took, in microseconds: `at` as "app/models/beer.rb:4", "" if no line of the application was on the stack; `call`: what
        # that line calls, `leaf`: what ran in the end, each as "load_file (psych)" with the library that it is from, and "" if it is the line itself.
        def to_h
          lines = @times.sort_by { |_, us| -us }.first(MAX_LINES)
          { readings: @readings, total_us: @times.sum { |_, us| us }.round, lines: lines.map { |(at, call, leaf), us| { at: at, call: call, leaf: leaf, us: us.round } } }
        end

        private

        def with_signals
          return yield unless Confinement::SystemCalls.known? && Thread.main.equal?(@thread)

          before = trap("PROF") { read(caller_locations(1)) }
          begin
            signal_each((INTERVAL * 1_000_000).round)
            yield
          ensure
            signal_each(0)
            trap("PROF", before || "DEFAULT")
          end
        end

        # Where the kernel refuses it, only the thread reads.
        def signal_each(microseconds)
          Confinement::SystemCalls.profile_each(microseconds)
        rescue SystemCallError, NotImplementedError
          nil
        end

        def read(stack)
          return if @over || stack.nil?

          time = now
          @times[line_of(stack)] += time - @last
          @readings += 1
          @last = now
        end

        def line_of(stack)
          index = stack.index { |location| @place.relative(path(location)) }
          return ["", "", name(stack.first)] unless index

          own = stack[index]
          at = "#{@place.relative(path(own))}:#{own.lineno}"
          outer = stack[index + 1]
          # What is written in C has the place of the line that calls it.
          in_c = outer && outer.lineno == own.lineno && path(outer) == path(own) && outer.label != own.label
          called = called(stack, index) || (own if in_c)
          [at, name(called), name(index.zero? ? called : stack.first)]
        end

        # What the application's frame calls. A shadow's guards stand before methods of Ruby's and of libraries.
        def called(stack, index)
          inner = stack[0...index]
          inner.reverse_each.find { |location| !path(location).start_with?(SHADOW) } || inner.first
        end

        def name(location)
          return "" unless location

          label = location.label.to_s.sub(WITHIN, "")
          library = library(path(location))
          library ? "#{label} (#{library})" : label
        end

        def library(path)
          path[GEM, 1] || path[LIBRARY, 1] unless @place.relative(path)
        end

        def path(location)
          location.absolute_path || location.path || ""
        end

        def now
          ::Process.clock_gettime(::Process::CLOCK_MONOTONIC, :float_microsecond)
        end
      end
    end
  end
end
