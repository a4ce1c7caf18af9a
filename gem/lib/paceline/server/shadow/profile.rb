# frozen_string_literal: true

# Where one replayed request spends its time, by the application's lines: the stack of its thread is read again and again, and each reading stands for the time
# around it. That slows a request down, so that such a replay is never measured.
#
# A thread reads it while the request waits. While the request computes, that thread would get Ruby's lock ten times a second only: then a signal does it,
# which comes as processor time is used (ITIMER_PROF of setitimer(2)) and is handled in the main thread, where requests are replayed.
require_relative "confinement"
require_relative "cost"
require_relative "place"
require_relative "profile_owners"

module Paceline
  module Server
    module Shadow
      class Profile
        # Seconds from one reading of the thread to the next, at least.
        INTERVAL = 0.001
        # Microseconds of processor time from one signal to the next. The kernel looks at its ticks only, one in some milliseconds: one is due at each of them.
        DUE = 50
        # A reading stands for no more than this after it, in microseconds, if another one follows: half of what passes from one tick of the kernel to the next.
        # If the next one comes later than a tick, it was held up by what it has found: a method in C.
        AFTER = 2_000
        # What is told, the lines with most time first.
        MAX_LINES = 40
        # A folder of Ruby's own library or of Debian's gems, and a gem's.
        LIBRARY = %r{/(?:ruby/\d[^/]*|vendor_ruby(?:/\d[^/]*)?|site_ruby(?:/\d[^/]*)?)/([^/.]+)[^/]*(?:/|\.rb\z)}
        GEM = %r{/gems/([^/]+?)-\d[^/]*/}
        # Methods of Ruby's own, in Ruby: other `load`s load code.
        MARSHAL = /\A<internal:(marshal)>/
        # As in "block (2 levels) in index".
        WITHIN = /\A(?:(?:block(?: \(\d+ levels\))?|rescue|ensure) in )+/
        # Code that runs while its file is loaded.
        LOADED = /\A<(?:main|top \(required\))>\z/
        # A line that only ends a block: Ruby hears the signal there, after what the line before has done in C.
        ENDING = /\A\s*(?:end|[})\]])[\s).]*\z/
        SHADOW = "#{__dir__}/".freeze
        # What is found by a reading.
        MEMBERS = %i[at call leaf middleware].freeze
        private_constant :ENDING, :MEMBERS, :SHADOW, :INTERVAL, :DUE, :AFTER, :MAX_LINES, :LIBRARY, :GEM, :MARSHAL, :WITHIN, :LOADED

        class << self
          # The one whose replay is under way, or nil.
          attr_accessor :current

          # From here on signals come, between replays, too: to a timer that is set the kernel adds a tick, and a short request would be over by then. Where the
          # kernel refuses it, only the thread reads.
          def begin_signals
            return if @before || !Confinement::SystemCalls.known? || !Thread.main.equal?(Thread.current)

            @before = trap("PROF") { @current&.read(caller_locations(1)) } || "DEFAULT"
            Confinement::SystemCalls.profile_each(DUE)
          rescue SystemCallError, NotImplementedError
            nil
          end

          # None come any more, and what handled them before does so again.
          def end_signals
            return unless @before

            before, @before = @before, nil
            begin
              Confinement::SystemCalls.profile_each(0)
            rescue SystemCallError, NotImplementedError
              nil
            end
            trap("PROF", before)
          end
        end

        # `root`: the application's folder; `app`: the whole application, for its middleware; nil: Rails'.
        def initialize(root, app = nil)
          @root = root
          @place = Place.new(root)
          @owners = ProfileOwners.new(app)
          @readings = []
        end

        # Reads the stack of this thread while the block runs. Returns what the block returns.
        def around
          @thread = Thread.current
          @began = now
          @waited = -Cost.waiting
          @over = false
          reader = Thread.new { read(@thread.backtrace_locations) while sleep(INTERVAL) && !@over }
          Profile.begin_signals
          Profile.current = self
          yield
        ensure
          Profile.current = nil
          @over = true
          @ended = now
          @waited += Cost.waiting
          reader&.join
        end

        # @api private
        def read(stack)
          return if @over || stack.nil?

          time = now
          @readings << [time, line_of(stack)]
        end

        # Of each line how long it took, in microseconds: `at` as "app/models/beer.rb:4", "" if no line of the application was on the stack; `call`: what
        # that line calls, `leaf`: what ran in the end, each as "load_file (psych)" with the library that it is from, and "" if it is the line itself; `middleware`: in
        # which it is (ProfileOwners).
        def to_h
          times = shares.each_with_object(Hash.new(0.0)) { |((at, call, *more), us), all| all[[call.empty? ? working(at) : at, call, *more]] += us }
          lines = times.sort_by { |_, us| -us }.first(MAX_LINES)
          { readings: @readings.size, total_us: times.sum { |_, us| us }.round, lines: lines.map { |found, us| MEMBERS.zip(found).to_h.merge(us: us.round) } }
        end

        private

        # What was found by each reading, with the microseconds that it stands for. A short request has one reading or none, at a time by chance: counting only what
        # came before it, its last lines would seem to take more than its first. That this thread was ready and had no processor is no line's time.
        def shares
          from = @began
          part = 1 - (@waited / (@ended - @began)).clamp(0, 1)
          @readings.each_with_index.map do |(time, found), index|
            following = @readings[index + 1]&.first
            to = following ? [time + AFTER, (time + following) / 2].min : [time, @ended].max
            us, from = (to - from) * part, to
            [found, us]
          end
        end

        # The line itself, or of the end of a block the last one within it.
        def working(at)
          path, _, number = at.rpartition(":")
          return at if path.empty?

          lines = ((@sources ||= {})[path] ||= sources(path)).first(number.to_i)
          index = lines.size - 1
          index -= 1 while index.positive? && (ENDING.match?(lines[index]) || lines[index].strip.empty?)
          lines.any? && ENDING.match?(lines.last) ? "#{path}:#{index + 1}" : at
        end

        def sources(path)
          File.readlines(File.join(@root, path), mode: "rb")
        rescue SystemCallError, ArgumentError
          []
        end

        def line_of(stack)
          index = own_index(stack)
          owner = @owners.of(stack)
          return ["", "", name(stack.first), owner] unless index

          own = stack[index]
          outer = stack[index + 1]
          # What is written in C has the place of the line that calls it.
          in_c = outer && outer.lineno == own.lineno && path(outer) == path(own) && outer.label != own.label
          called = called(stack, index) || (own if in_c)
          [place(own), name(called), name(index.zero? ? called : stack.first), owner]
        end

        # Of the innermost frame of the application; of one that loads code, if it does so in the request: the lines of that code are no work of their own.
        def own_index(stack)
          own = ->(from) { (from...stack.size).find { |index| @place.relative(path(stack[index])) } }
          loaded = stack.rindex { |location| LOADED.match?(location.label) }
          loaded = stack[0...loaded].rindex { |location| LOADED.match?(location.label) } while loaded && own[loaded + 1].nil?
          own[loaded ? loaded + 1 : 0]
        end

        def place(location)
          "#{@place.relative(path(location))}:#{location.lineno}"
        end

        # What the application's frame calls, but for the code of a file that it loads. A shadow's guards stand before methods of Ruby's and of libraries.
        def called(stack, index)
          inner = stack[0...index]
          inner.clear if inner.any? && LOADED.match?(inner.last.label)
          inner.reverse_each.find { |location| !path(location).start_with?(SHADOW) } || inner.first
        end

        def name(location)
          return "" unless location

          label = location.label.to_s.sub(WITHIN, "")
          library = library(path(location))
          library ? "#{label} (#{library})" : label
        end

        def library(path)
          path[GEM, 1] || path[LIBRARY, 1] || path[MARSHAL, 1] unless @place.relative(path)
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
