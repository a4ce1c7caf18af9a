# frozen_string_literal: true

# Until when a page is good that has looked at the clock. A time that a line of the application gets from the clock is marked, and so is what is made
# of it by steps that are known: by adding a duration, in another zone. Compared with another time, the page is good until the result changes;
# of its date, until midnight. Whatever else is done with it refuses the page: by a method that nobody knows, in another thread, or nothing at all,
# since then it may be kept for a later request. A mark belongs to one request: for all others, and after it, the value is a time like any other.
require_relative "hooks"
require_relative "clock/blindness"
require_relative "clock/moves"
require_relative "clock/methods"
require_relative "clock/words"
require_relative "clock/bound"

module Paceline
  module AutoCache
    module Clock
      # A time of the clock: it was read at `now` (seconds since 1970), and is that plus `shift` as long as the page is good.
      class Mark
        attr_reader :recording, :what, :place, :now, :shift

        def initialize(recording, what, place, now, shift = 0)
          @recording = recording
          @what = what
          @place = place
          @now = now
          @shift = shift
          @used = false
        end

        # Of a value that was made of this one.
        def moved(shift)
          @used = true
          Mark.new(recording, what, place, now, shift)
        end

        # What was made of it is the same until the value is this time.
        def good_until(time)
          @used = true
          recording.good_until(time - shift, place)
        end

        # It was compared with this time: the result changes once, if that lies ahead.
        def compare(time)
          @used = true
          recording.good_until(time - shift, place) if time - shift >= now
        end

        # Its value may be in the page. Any thread may say so.
        def refuse
          @refused = true
        end

        def used? = @used

        # What was made of it is known.
        def used!
          @used = true
        end

        # The page can't be kept: nobody knows what became of the value.
        def lost? = @refused || !@used
      end

      # Values with a mark, of all requests that are under way. A WeakMap would lose them when objects are moved (GC.compact, before Ruby 3.3).
      MARKS = {}.compare_by_identity
      # With more, somebody has not ended his recordings.
      MAX_MARKS = 100_000

      @marked = 0
      @changing = Thread::Mutex.new

      class << self
        # No value has a mark. Ractors have none, and may see a number, but not the marks.
        def idle? = @marked.zero? || !Ractor.current.equal?(Ractor.main)

        # A request is over.
        def forget(values) = change { values.each { |value| MARKS.delete(value) } }

        # The application asks for the moment, and the block gives it.
        def now(what, &moment)
          recording = AutoCache.recording
          return yield if recording.nil? || recording.quiet? || (place = reader(recording)).nil?

          before = real(recording)
          value = recording.quiet(&moment)
          after = real(recording)
          if value.instance_of?(::Time) && value.to_r.between?(before, after) && !Blindness.any?(recording)
            mark(value, Mark.new(recording, what, place, value.to_r))
          else
            # A test, or a library, may have set another clock.
            recording.moment(what, place)
          end
          value
        end

        # The application asks for the date, and the block gives it. `zone`: brings a time into the zone whose date it is.
        def today(what, zone, &date)
          recording = AutoCache.recording
          return yield if recording.nil? || recording.quiet? || (place = reader(recording)).nil?

          # Before it is asked for: it may change meanwhile.
          time = zone.call(::Time.at(real(recording)))
          midnight = Moves.midnight(time)
          found = recording.quiet(&date)
          found == time.to_date ? recording.good_until(midnight, place) : recording.moment(what, place)
          found
        end

        # A method of a marked value is called.
        def apply(receiver, name, original, *arguments, **options, &block)
          call = -> { original.call(*arguments, **options, &block) }
          return call.call unless (mark = own(receiver)) && !mark.recording.quiet?

          kind = Moves.kind(name, arguments) unless block
          kind = :nothing if name == :hash && Bound.by_query_cache?
          case kind
          when :same, :shift, :calendar then return move(mark, receiver, kind, arguments, &call)
          when :compare then arguments.each { |other| compare(receiver, other) }
          when nil then mark.refuse
          when :nothing then nil
          else mark.good_until(mark.recording.quiet { Moves.public_send(kind, receiver) })
          end
          mark.recording.quiet(&call)
        end

        # The block compares two values, of which one at least has a mark.
        def compared(one, other, &call)
          recording = AutoCache.recording
          return yield if recording&.quiet?

          compare(one, other)
          compare(other, one)
          recording ? recording.quiet(&call) : yield
        end

        def copied(original, copy)
          mark = own(original)
          mark(copy, mark.moved(mark.shift)) if mark && !mark.recording.quiet?
        end

        # Something reads these values, and nobody knows what for.
        def refuse(values)
          values.each { |value| own(value)&.refuse }
        end

        private

        # Which line of the application reads; nil: a framework does, for itself.
        def reader(recording) = recording.quiet { AutoCache.readers.reader }

        def real(recording)
          recording.quiet { Rational(Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond), 1_000_000_000) }
        end

        # The mark of a value, if this thread serves its request. Elsewhere nobody knows what becomes of it.
        def own(value)
          mark = MARKS[value]
          return if mark.nil?
          return mark if mark.recording.equal?(AutoCache.recording)

          mark.refuse
          nil
        end

        def mark(value, mark)
          return mark.recording.moment(mark.what, mark.place) unless MARKS.size < MAX_MARKS && mark.recording.keep_mark(value, mark)

          change { MARKS[value] = mark }
        end

        def change
          @changing.synchronize do
            yield
            @marked = MARKS.size
          end
        end

        # If the other one has a mark as well, it counts as a time like any other: kept for a later request, it will be one.
        def compare(value, other)
          mark = own(value) or return
          case other
          when nil, true, false, Symbol, String then nil # It is no time, and nobody looks at this one.
          else time?(other) ? mark.compare(mark.recording.quiet { other.to_r }) : mark.refuse
          end
        end

        # The block makes another time of it.
        def move(mark, receiver, kind, arguments, &call)
          recording = mark.recording
          by_times = arguments.any? { |argument| time?(argument) }
          result = recording.quiet(&call)
          return result if result.equal?(receiver)

          is_known = !by_times && time?(result) && (kind == :same || recording.quiet { Moves.steady?(kind, receiver, arguments, result) })
          return result.tap { mark.refuse } unless is_known

          mark.good_until(recording.quiet { Moves.midnight(receiver) }) unless kind == :same || Moves.fixed?(kind, arguments)
          mark(result, mark.moved(recording.quiet { mark.shift + result.to_r - receiver.to_r }))
          result
        end

        # Any object may be asked, also one that says it is a time.
        def time?(value)
          return false unless ::Comparable === value

          value.instance_of?(::Time) || (defined?(::ActiveSupport::TimeWithZone) && value.instance_of?(::ActiveSupport::TimeWithZone))
        end
      end
    end
  end
end
