# frozen_string_literal: true

# How long ago something was, in words (`time_ago_in_words`): until when Action View says the same of it. Where it is not known, the plain method
# reads the time.
module Paceline
  module AutoCache
    module Clock
      module Words
        # Minutes from which on it counts in other units, and the minutes of these; nil: it says the same of all.
        STEPS = { 0 => 1, 45 => nil, 90 => 60, 1440 => nil, 2520 => 1440, 43_200 => 43_200, 86_400 => 43_200, 525_600 => 1 }.freeze
        # Of a year on, it looks at the date, too.
        YEAR = 525_600
        MINUTE = 60
        private_constant :STEPS, :YEAR, :MINUTE

        # ActionView::Helpers::DateHelper
        module Helper
          def distance_of_time_in_words(from_time, to_time = 0, options = {})
            return super if Clock.idle? || options[:include_seconds]

            Clock.words(from_time, to_time) { |one, other| super(one, other, options) }
          end
        end

        def self.install
          ActiveSupport.on_load(:action_view) { ActionView::Helpers::DateHelper.prepend(Helper) }
          Hooks.reading(Helper)
        end

        # When the words for the time between a moment and another time change. The block: the words for another moment.
        def self.change(moment, time)
          minutes = ((moment - time).abs / MINUTE).round
          first, last = same(minutes)
          found = at(moment, time, first, last)
          # It is Action View's own rule, as far as this knows.
          nearly = moment + ((found - moment) * Rational(999, 1000))
          yield(nearly) == yield(moment) ? found : at(moment, time, minutes, minutes + 1)
        end

        # The minutes are rounded: they change in the middle.
        def self.at(moment, time, first, last)
          moment >= time ? time + ((last - Rational(1, 2)) * MINUTE) : [time - ((first - Rational(1, 2)) * MINUTE), time].min
        end
        private_class_method :at

        # Of which minutes it says the same as of these: from the first to before the last.
        def self.same(minutes)
          from, step = STEPS.select { |begins, _| begins <= minutes }.to_a.last
          to = STEPS.keys.find { |begins| begins > minutes } || (minutes + 1)
          return [from, to] unless step

          middle = Rational(minutes, step).round
          [[((middle - Rational(1, 2)) * step).ceil, from].max, [((middle + Rational(1, 2)) * step).ceil, to].min]
        end
        private_class_method :same

        # Whether the date counts as well.
        def self.of_date?(moment, time) = (moment - time).abs >= (YEAR - 1) * MINUTE
      end

      class << self
        # The words for the time between these two, of which one at least has a mark. The block: the words for others.
        def words(one, other)
          moment = [one, other].find { |value| own(value) }
          time = moment.equal?(one) ? other : one
          mark = own(moment)
          return yield(one, other) if mark.nil? || mark.recording.quiet? || !time?(time) || MARKS[time]

          # Without a mark: what translations read is recorded as ever.
          plain = mark.recording.quiet { moment.to_time + 0 }
          now, at = plain.to_r, time.to_r
          change = Words.change(now, at) { |later| yield(::Time.at(later), ::Time.at(at)) }
          # A clock that is a moment off rounds to another minute.
          mark.good_until(change - Rational(1, 1000))
          mark.good_until([plain, mark.recording.quiet { moment.in_time_zone + 0 }].map { |zoned| Moves.midnight(zoned) }.min) if Words.of_date?(now, at)
          moment.equal?(one) ? yield(plain, time) : yield(time, plain)
        end
      end
    end
  end
end
