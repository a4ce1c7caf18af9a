# frozen_string_literal: true

# What the methods of Time and ActiveSupport::TimeWithZone make of a time of the clock, and when that changes next. A method that is in no list
# reads the value. Records nothing.
module Paceline
  module AutoCache
    module Clock
      module Moves
        # Equal until midnight in the value's zone.
        DAYS = %i[
          year month mon day mday wday yday sunday? monday? tuesday? wednesday? thursday? friday? saturday? on_weekend? on_weekday? to_date
          monday sunday beginning_of_day midnight at_midnight at_beginning_of_day end_of_day at_end_of_day all_day beginning_of_week at_beginning_of_week
          end_of_week at_end_of_week all_week beginning_of_month at_beginning_of_month end_of_month at_end_of_month all_month
          beginning_of_quarter at_beginning_of_quarter end_of_quarter at_end_of_quarter all_quarter
          beginning_of_year at_beginning_of_year end_of_year at_end_of_year all_year
        ].freeze
        # By steps of the calendar.
        CALENDAR = %i[
          advance yesterday tomorrow days_ago days_since weeks_ago weeks_since months_ago months_since years_ago years_since
          prev_month next_month last_month prev_year next_year last_year
        ].freeze
        SAME = %i[utc gmtime getutc getgm localtime getlocal in_time_zone to_time comparable_time].freeze
        KINDS = {
          **DAYS.to_h { |name| [name, :midnight] }, **CALENDAR.to_h { |name| [name, :calendar] }, **SAME.to_h { |name| [name, :same] },
          **%i[+ - since ago in].to_h { |name| [name, :shift] }, **%i[<=> eql? before? after? between?].to_h { |name| [name, :compare] },
          **%i[to_i to_f to_r].to_h { |name| [name, :number] },
          **%i[respond_to? respond_to_missing? freeze].to_h { |name| [name, :nothing] },
          hour: :hour, end_of_hour: :hour, at_end_of_hour: :hour, min: :minute, end_of_minute: :minute, at_end_of_minute: :minute
        }.freeze
        BEGINNINGS = { beginning_of_minute: 60, at_beginning_of_minute: 60, beginning_of_hour: 3600, at_beginning_of_hour: 3600 }.freeze
        # What `change` sets, and in how many seconds the rest changes: it puts the smaller units to zero.
        PARTS = { min: 3600, sec: 60, usec: 1, nsec: 1 }.freeze
        # Methods of which more is known than that they read the value.
        NAMES = (KINDS.reject { |_, kind| kind == :nothing }.keys + BEGINNINGS.keys + %i[change floor round strftime]).freeze
        # Of a format: nothing but parts of the date.
        DATE_ONLY = /\A(?:[^%]|%%|%[-0^#_]*\d{0,2}[YCyGgmBbhdejAauwUWVDFxnt])*\z/
        # Of a duration: always the same number of seconds.
        FIXED = %i[seconds minutes hours].freeze
        DAY = 86_400
        private_constant :DAYS, :CALENDAR, :SAME, :BEGINNINGS, :PARTS, :DATE_ONLY, :FIXED

        # To a whole number of `grain` seconds (nil: as it is), of the time and `more`. `sets`: then to a fixed place in these seconds.
        Rounding = Struct.new(:grain, :more, :sets) do
          # The mark of the result; nil: it is another one than that.
          def of(mark, time, result)
            return (mark.moved if result.to_r == time.to_r) unless grain
            return if zoned? && !Moves.steady?(:calendar, time, [], result)

            made = mark.moved(more || 0).floored(grain, zoned? ? time.utc_offset : 0) or return
            by = result.to_r - made.at(mark.now)
            made.moved(by) if by.zero? || (sets && by.positive? && by < grain)
          end

          # Minutes and hours of a zone.
          def zoned? = grain && grain > 1
        end

        class << self
          # What a method does; nil: it reads the value.
          def kind(name, arguments, options = {})
            case name
            # TimeWithZone hands on what is Time's.
            when :method_missing then kind(arguments.first, arguments.drop(1), options).then { |found| found if delegated?(found) }
            when :strftime then :midnight if date_only?(arguments)
            when :change then change(arguments.first || options)
            when :floor, :round then rounding(name, *arguments, **options)
            else BEGINNINGS.key?(name) ? Rounding.new(BEGINNINGS[name]) : KINDS[name]
            end
          end

          # It moves each time by as many seconds.
          def fixed?(kind, arguments)
            return false unless kind == :shift

            case (by = arguments.first)
            when Integer, Float, Rational then true
            else duration?(by) && (by.parts.to_h.keys - FIXED).empty?
            end
          end

          # Until midnight it moves each time by as many seconds: neither zone changes its offset before, nor has just done so, when an hour is missing.
          def steady?(kind, time, arguments, result)
            return true if fixed?(kind, arguments)
            return false if kind == :shift && !duration?(arguments.first)

            left = midnight(time) - time.to_r
            left.positive? && [time, result].all? { |one| [one - DAY, one + left].all? { |other| other.utc_offset == one.utc_offset } }
          end

          # When another day begins in its zone, or earlier.
          def midnight(time)
            left = DAY - (time.hour * 3600) - (time.min * 60) - time.sec - (time.to_r % 1)
            # A clock that is put forward comes to it earlier.
            forward = (time + left).utc_offset - time.utc_offset
            time.to_r + left - [forward, 0].max
          end

          def hour(time) = unless_put(time, 3600 - (time.min * 60) - time.sec - (time.to_r % 1))

          def minute(time) = unless_put(time, 60 - time.sec - (time.to_r % 1))

          private

          # In so many seconds, if the clock is not put forward or back before: then nobody knows.
          def unless_put(time, left) = time.to_r + ((time + left).utc_offset == time.utc_offset ? left : 0)

          def delegated?(kind) = kind.is_a?(Rounding) || %i[midnight calendar hour minute].include?(kind)

          def change(parts)
            return unless parts.is_a?(Hash) && (parts.keys - [:hour, *PARTS.keys]).empty? && parts.values.all?(Numeric)

            # What is left of the time is its date.
            parts.key?(:hour) ? :midnight : Rounding.new(PARTS.find { |part, _| parts.key?(part) }&.last, nil, true)
          end

          def rounding(name, digits = 0, **options)
            return unless digits.is_a?(Integer) && digits.between?(0, 9) && options.empty?

            grain = Rational(1, 10**digits)
            Rounding.new(grain, (grain / 2 if name == :round))
          end

          def date_only?(arguments) = arguments.size == 1 && arguments.first.instance_of?(String) && DATE_ONLY.match?(arguments.first)

          # A duration calls itself an Integer.
          def duration?(value) = defined?(::ActiveSupport::Duration) && ::ActiveSupport::Duration === value
        end
      end
    end
  end
end
