# frozen_string_literal: true

# The time of day as the application reads it: it begins with each request where the driver says, and goes on from there. It never changes the
# monotonic clock, by which times are measured.
module Paceline
  module Server
    module Shadow
      module HeldClock
        BILLION = 1_000_000_000
        REAL_TIME = [::Process::CLOCK_REALTIME,
                     (::Process::CLOCK_REALTIME_COARSE if defined?(::Process::CLOCK_REALTIME_COARSE))].compact.freeze
        # Of Process.clock_gettime, with what a nanosecond is in it.
        UNITS = {
          nanosecond: ->(time) { time }, microsecond: ->(time) { time / 1000 }, millisecond: ->(time) { time / 1_000_000 },
          second: ->(time) { time / BILLION }, float_second: ->(time) { time / 1e9 }, float_millisecond: ->(time) { time / 1e6 },
          float_microsecond: ->(time) { time / 1e3 }
        }.freeze
        private_constant :REAL_TIME, :UNITS

        # Before Process.clock_gettime.
        module OfProcess
          def clock_gettime(clock, unit = :float_second)
            return super unless HeldClock.time_of_day?(clock)

            # A coarse clock is behind the other, which tells the first moment.
            HeldClock.in_unit(super(::Process::CLOCK_REALTIME, :nanosecond), unit || :float_second)
          end
        end

        # Before Time.now and Time.new.
        module OfTime
          def now(**options)
            time = ::Process.clock_gettime(::Process::CLOCK_REALTIME, :nanosecond)
            at(time / BILLION, time % BILLION, :nsec, **options)
          end

          def new(*arguments, **options)
            arguments.empty? && options.keys.all?(:in) ? now(**options) : super
          end
        end

        # Before Date.today.
        module OfDate
          def today(start = ::Date::ITALY)
            now = ::Time.now
            civil(now.year, now.month, now.day, start)
          end
        end

        # Before DateTime.now.
        module OfDateTime
          def now(start = ::Date::ITALY)
            ::Time.now.to_datetime.new_start(start)
          end
        end

        @shift = 0

        class << self
          def there?
            true
          end

          def install
            ::Process.singleton_class.prepend(OfProcess)
            ::Time.singleton_class.prepend(OfTime)
          end

          # It is `seconds` (since the Unix epoch) now.
          def hold(seconds)
            @shift = 0
            @shift = (seconds * 1e9).round - ::Process.clock_gettime(::Process::CLOCK_REALTIME, :nanosecond)
          end

          def time_of_day?(clock)
            REAL_TIME.include?(clock)
          end

          # `time`: the real one in nanoseconds.
          def in_unit(time, unit)
            convert = UNITS[unit] or raise ArgumentError, "unexpected unit: #{unit}"
            convert.call(time + @shift)
          end
        end

        # The library date may be loaded later than a shadow begins.
        module Dates
          class << self
            def there?
              Guards.loaded?("DateTime")
            end

            def install
              ::Date.singleton_class.prepend(OfDate)
              ::DateTime.singleton_class.prepend(OfDateTime)
            end
          end
        end
      end
    end
  end
end
