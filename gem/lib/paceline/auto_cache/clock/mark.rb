# frozen_string_literal: true

# A time of the clock: it was read at `now` (seconds since 1970). At another moment t of the same page's life it is t plus `shift`, rounded down to a
# whole number of `grain` (seconds) where it has one, plus `after`. It says from when on a comparison has another result. Decides nothing of what may be asked.
module Paceline
  module AutoCache
    module Clock
      class Mark
        # Seconds for which a value has to be the same to be worth a page.
        COARSE = 60
        private_constant :COARSE

        attr_reader :recording, :what, :place, :now

        # `offset`: of the zone in whose minutes and hours it was rounded.
        def initialize(recording, what, place, now, shift: 0, grain: nil, after: 0, offset: 0)
          @recording = recording
          @what = what
          @place = place
          @now = now
          @shift = shift
          @grain = grain
          @after = after
          @offset = offset
          @used = false
        end

        # What it is at this moment.
        def at(moment) = @grain ? floor(moment + @shift) + @after : moment + @shift

        # Of a value that was made of this one, and is later by so many seconds.
        def moved(by = 0) = made(@grain ? { after: @after + by } : { shift: @shift + by })

        # Of a value that was made of this one by rounding down; nil: it was rounded to other units before.
        def floored(grain, offset = 0)
          return made(grain: grain, offset: offset % grain) unless @grain
          return unless [@grain, @offset, offset].all? { |seconds| (seconds % grain).zero? }

          made(after: @after - (@after % grain))
        end

        # What was made of it is the same until the value is this time.
        def good_until(time)
          @used = true
          recording.good_until(reaches(time), place)
        end

        # It was compared with this time: the result changes when the value comes to it, and once more when it goes on.
        def compare(time)
          @used = true
          case at(now) <=> time
          when -1 then recording.good_until(reaches(time), place)
          when 0 then recording.good_until(@grain ? reaches(time + @grain) : now, place)
          end
        end

        # What was made of it is the same until this moment of the clock.
        def good_until_moment(moment)
          @used = true
          recording.good_until(moment, place)
        end

        # It is the same for a while, until this moment of the clock.
        def coarse? = @grain && @grain >= COARSE
        def changes = reaches(at(now) + @grain)

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

        private

        def made(changed)
          @used = true
          Mark.new(recording, what, place, now, shift: @shift, grain: @grain, after: @after, offset: @offset, **changed)
        end

        def floor(time) = time - ((time + @offset) % @grain)

        # When the value is this time or later.
        def reaches(time)
          return time - @shift unless @grain

          below = floor(time - @after)
          below += @grain if below < time - @after
          below - @shift
        end
      end
    end
  end
end
