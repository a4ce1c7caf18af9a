# frozen_string_literal: true

# Until when a page is good that has looked at the clock. A time that a line of the application gets from the clock is marked, and so is what is made
# of it by steps that are known: by adding a duration, in another zone. Compared with another time, the page is good until the result changes;
# of its date, until midnight. A number that is made of it is followed as far as one line calculates and compares (seconds.rb). Whatever else is done with it
# refuses the page: by a method that nobody knows, in another thread, or nothing at all, since then it may be kept for a later request. A mark belongs to one request:
# for all others, and after it, the value is a time like any other.
require_relative "hooks"
require_relative "clock/blindness"
require_relative "clock/mark"
require_relative "clock/moves"
require_relative "clock/seconds"
require_relative "clock/uses"
require_relative "clock/methods"
require_relative "clock/words"
require_relative "clock/bound"

module Paceline
  module AutoCache
    module Clock
      # Values with a mark, of all requests that are under way. A WeakMap would lose them when objects are moved (GC.compact, before Ruby 3.3).
      MARKS = {}.compare_by_identity
      # 1970, as a Julian day.
      EPOCH = Rational(4_881_175, 2)
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

          kind = Moves.kind(name, arguments, options) unless block
          kind = :number if kind == :shift && name == :- && time?(arguments.first)
          kind = :nothing if name == :hash && Bound.by_query_cache?
          case kind
          when :same, :shift, :calendar then return move(mark, receiver, kind, arguments, &call)
          when :number then return number(mark, receiver, name, arguments, &call)
          when Moves::Rounding then return round(mark, receiver, kind, &call)
          when :compare then arguments.each { |other| compare(receiver, other) }
          when nil then read(mark)
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
          mark(copy, mark.moved) if mark && !mark.recording.quiet?
        end

        # The block subtracts a value with a mark from a time.
        def subtracted(time, value, &call)
          mark = own(value)
          return yield if mark.nil? || mark.recording.quiet?

          number(mark, value, :-, [time], reversed: true, &call)
        end

        # The block brings a value to the precision of a column (digits of a second; nil: as it is).
        def precise(value, digits, &call)
          mark = own(value)
          return yield if mark.nil? || mark.recording.quiet?

          round(mark, value, Moves::Rounding.new(digits && Rational(1, 10**digits)), &call)
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
          else (moment = moment(mark, other)) ? mark.compare(moment) : read(mark)
          end
        end

        # Of a time or a date, as Active Support compares them.
        def moment(mark, other)
          return mark.recording.quiet { other.to_r } if time?(other)

          (other.ajd - EPOCH) * Moves::DAY if defined?(::ActiveSupport) && [::Date, ::DateTime].include?(other.class)
        end

        # Nobody knows what for. A value that is the same for a while is that as long.
        def read(mark)
          mark.coarse? ? mark.good_until_moment(mark.changes) : mark.refuse
        end

        # The block makes a number of it.
        def number(mark, receiver, name, arguments, reversed: false, &call)
          value = mark.recording.quiet(&call)
          other = arguments.first
          return value.tap { [receiver, other].each { |one| own(one)&.refuse } } if arguments.any? && (!time?(other) || MARKS[other])

          Seconds.of(mark, value, name) do |moment|
            time = ::Time.at(moment)
            next time.public_send(name) if arguments.empty?

            reversed ? other - time : time - other
          end
        end

        # The block makes another time of it, by rounding.
        def round(mark, receiver, rounding, &call)
          recording = mark.recording
          result = recording.quiet(&call)
          known = time?(result) && recording.quiet { rounding.of(mark, receiver, result) }
          return result.tap { mark.refuse } unless known

          mark.good_until(recording.quiet { Moves.midnight(receiver) }) if rounding.zoned?
          mark(result, known)
          result
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
          mark(result, mark.moved(recording.quiet { result.to_r - receiver.to_r }))
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
