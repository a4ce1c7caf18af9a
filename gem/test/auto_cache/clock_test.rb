# frozen_string_literal: true

require "helper"
require "auto_cache/support/clock_shop"

# Until when a page is good that has looked at the clock. Each test in a process of its own, since Time is changed there.
class AutoCacheClockTest < Paceline::Test
  include ClockShop

  def test_a_comparison_is_good_until_its_result_changes
    return if apart

    shop do
      [
        -> { Time.now > @soon }, -> { @soon >= Time.now }, -> { Time.current < @zoned }, -> { @zoned == Time.current }, -> { @zoned > Time.now },
        -> { Time.zone.now > @soon }, -> { @soon.past? }, -> { @zoned.past? }, -> { @zoned.future? }, -> { (@past..@soon).cover?(Time.now) },
        -> { (@zoned.yesterday..@zoned).cover?(Time.current) }, -> { Time.now.between?(@past, @soon) }, -> { Time.current.between?(@zoned.yesterday, @zoned) },
        -> { [@soon, Time.now, @past].max }, -> { [@soon, Time.now].sort }, -> { Time.now.clamp(@past, @soon) }, -> { [@past, @soon].include?(Time.now) },
        -> { Time.now.eql?(@soon) }, -> { Time.new > @soon }, -> { Time.now.utc > @soon }, -> { Time.now.localtime("+09:00") > @soon }, -> { Time.current.utc > @soon },
        -> { Time.now.in_time_zone("Tokyo") > @soon }, -> { Time.current.to_time > @soon }, -> { Time.now.dup > @soon }, -> { Time.current.clone > @zoned },
        -> { Time.current.before?(@zoned) }, -> { Time.current.presence > @zoned }, -> { case Time.now when @past..@soon then 1 end }
      ].each_with_index { |act, nth| assert_good(@soon, nth, &act) }
      assert_good(@soon + 60) { @zoned <= 1.minute.ago }
      assert_good(@soon + 90) { @soon < Time.now - 90 }
      assert_good(@soon - 7) { Time.current + 7 > @zoned }
      assert_good(@soon + 7200) { 2.hours.ago > @zoned }
      assert_good(nil) { @past < Time.now }
      assert_good(nil) { 1.minute.from_now < @past }
      assert_good(@soon) { [Time.now > @soon, Time.now > @soon + 5] }
    end
  end

  def test_a_date_is_good_until_midnight
    return if apart

    shop do
      midnight = ->(time) { time.to_date.next_day.in_time_zone }
      expected = midnight.call(Time.current)
      [
        -> { Date.current }, -> { Time.zone.today }, -> { Time.current.to_date }, -> { Time.current.year }, -> { Time.current.beginning_of_month }, -> { @zoned.today? },
        -> { Time.current.strftime("%-d. %B %Y") }, -> { Time.current.all_day }, -> { Time.current.saturday? }, -> { Date.new(2020).past? }, -> { Time.current.yesterday < @past }
      ].each_with_index { |act, nth| assert_includes [expected, midnight.call(Time.current)].map(&:to_r), good_until(&act), nth }
      local = ->(time) { Time.local(time.year, time.month, time.day) + 86_400 }
      expected = local.call(Time.now)
      [-> { Date.today }, -> { Time.now.year }].each { |act| assert_includes [expected, local.call(Time.now)].map(&:to_r), good_until(&act) }
    end
  end

  def test_whatever_else_reads_the_moment
    return if apart

    shop do
      assert_refused(
        nothing: -> { Time.now }, text: -> { "#{Time.now}" }, zoned_text: -> { Time.current.to_s }, format: -> { Time.now.strftime("%H:%M") },
        zone: -> { Time.now.strftime("%Y %Z") }, integer: -> { Time.now.to_i }, difference: -> { Time.now - @past }, other_way: -> { @soon - Time.now },
        zoned_difference: -> { @zoned - Time.current }, hash: -> { { Time.now => 1 } }, uniq: -> { [Time.now, @past].uniq }, marshal: -> { Marshal.dump(Time.now) },
        zoned_marshal: -> { Marshal.dump(Time.current) }, copy: -> { Time.at(Time.now) }, dup: -> { Time.now.dup.to_f }, zoned_dup: -> { Time.current.dup.to_f },
        json: -> { Time.current.as_json }, inspect: -> { [Time.now].inspect }, offset: -> { Time.current.utc_offset }, dst: -> { Time.current.dst? },
        subclass: -> { Class.new(Time).now > @soon }, date_time: -> { Time.now.to_datetime }, number: -> { Time.now == 5 },
        change: -> { Time.current.change(day: 1) > @zoned }, seconds: -> { Time.current.seconds_since_midnight }, file: -> { File.utime(Time.now, @past, "/dev/zero") rescue 0 },
        kept: -> { @kept = 5.minutes.from_now }, shifted: -> { 5.minutes.ago.to_s }, block: -> { Time.now.then(&:usec) },
        time_of_day: -> { Time.now.sec }, local: -> { Time.now.localtime.to_a }, clock: -> { Process.clock_gettime(Process::CLOCK_REALTIME) }.then { -> { Time.now.nsec } }
      )
    end
  end

  # What it is compared with may be in a variable, for the next request.
  def test_two_moments_of_one_request
    return if apart

    shop do
      before = Time.now
      found = good_until { (@first = Time.now) < 1.minute.ago }
      assert_includes (before + 59)..(Time.now + 61), Time.at(found)
      assert_equal false, good_until { @until = 5.minutes.from_now }
    end
  end

  def test_another_request_has_a_time_like_any_other
    return if apart

    shop do
      first = recording_of { (@kept = Time.now) > @soon }
      first.end!
      assert_good(nil) { @kept.to_i }
      assert_good(@kept + 60) { 1.minute.ago > @kept }
      assert_equal [["W"]], entries_of(first).map { |fields| fields.first(1) }
    end
  end

  def entries_of(recording) = [].tap { |found| recording.each { |*fields, _| found << fields } }

  def test_another_thread_reads_it
    return if apart

    shop do
      asked, answered = Queue.new, Queue.new
      other = Thread.new { answered << asked.pop.to_i }
      assert_equal(false, good_until { (asked << Time.now) && answered.pop })
      other.join
      assert_equal(false, good_until do
        now = Time.now
        Thread.new { recording_of { now < @soon } }.join
        now < @soon
      end)
    end
  end

  def test_a_ractor_has_times_of_its_own
    return if apart

    shop do
      assert_good(@soon) do
        kept = Time.now
        ractor = Ractor.new { [Time.at(5).utc.year, Time.at(1) <=> Time.at(2), Time.at(9) - Time.at(3)] }
        assert_equal [1970, -1, 6.0], ractor.respond_to?(:value) ? ractor.value : ractor.take
        kept < @soon
      end
    end
  end

  def test_a_clock_that_somebody_has_set
    return if apart

    shop do
      Time.define_singleton_method(:now) { Time.at(5_000_000_000) }
      assert_equal(false, good_until { Time.now > @soon })
      Date.define_singleton_method(:today) { Date.new(2001) }
      assert_equal(false, good_until { Date.today })
    end
  end

  def test_a_framework_that_reads_it_for_itself
    return if apart

    shop do
      log = eval("-> { Time.now.to_s }", binding, "/gems/railties-7.2/lib/rails/rack/logger.rb", 1)
      assert_good(nil, &log)
    end
  end

  def test_a_library_that_reads_times_in_c
    return if apart

    shop do
      folder = Dir.mktmpdir
      path = File.join(folder, "fast_json.so")
      File.binwrite(path, "\0\0rb_time_timespec\0")
      assert_good(@soon) { Time.now < @soon }
      $LOADED_FEATURES << path
      assert_equal(false, good_until { Time.now < @soon })
    ensure
      FileUtils.rm_rf(folder)
    end
  end

  # Active Support keeps the methods that it changes by aliases.
  def test_libraries_that_come_later
    return if apart

    require "paceline/auto_cache/clock"
    Paceline::AutoCache::Clock::Methods.install
    Paceline::AutoCache.instance_variable_set(:@readers, Paceline::AutoCache::Readers.new(__dir__))
    require "active_support"
    require "active_support/time"
    @soon, @past = Time.at(Time.now.to_i + 100), Time.at(1000)
    assert_equal [1, 0, 1], [@soon <=> @past, @soon <=> @soon.to_datetime, Time.at(@soon, in: "UTC") <=> @past]
    assert_equal @soon, @past + (@soon - @past)
    assert_good(@soon) { Time.now > @soon }
    assert_good(@soon + 60) { @soon < 1.minute.ago }
    assert_refused(text: -> { Time.now.to_s }, difference: -> { Time.now - @past }, zoned: -> { Time.now.in_time_zone("Tokyo").hour })
  end

  def test_too_many
    return if apart

    shop { assert_equal(false, good_until { 10_001.times { Time.now < @soon } }) }
  end

  ZONES = %w[Europe/Berlin America/Sao_Paulo Asia/Beirut Australia/Lord_Howe Asia/Kathmandu America/St_Johns Africa/Cairo Pacific/Apia Etc/UTC].freeze

  # By chance, around the days at which zones change their offsets.
  def test_nothing_changes_before_it_is_said
    return if apart

    shop do
      moves = Paceline::AutoCache::Clock::Moves
      random = Random.new(Integer(ENV.fetch("SEED", "1")))
      3000.times do
        zone = ActiveSupport::TimeZone[ZONES.sample(random: random)]
        starts = zone.tzinfo.transitions_up_to(Time.utc(2022), Time.utc(2005)).map { |change| Time.at(change.at.to_i) } + [Time.utc(2010, 1, 31, 12), Time.utc(2012, 2, 28, 20)]
        time = zone.at(starts.sample(random: random).to_r + random.rand(-100_000..100_000) + Rational(random.rand(1000), 1000))
        { midnight: :to_date.to_proc, hour: :hour.to_proc, minute: :min.to_proc }.each do |kind, read|
          change = moves.public_send(kind, time)
          within(random, time, change).each { |later| assert_equal read.call(time), read.call(later), "#{kind} #{time} #{later}" }
        end
        by = [1.day, -3.days, 1.month, -1.month, 1.year, 2.weeks, 36.hours + 1.day].sample(random: random)
        moved = time + by
        next unless moves.steady?(:shift, time, [by], moved)

        within(random, time, moves.midnight(time)).each { |later| assert_in_delta moved.to_r - time.to_r, (later + by).to_r - later.to_r, 1e-8, "#{time} #{later} #{by.inspect}" }
      end
    end
  end

  def words
    require "action_view"
    ActionView.const_get(:Base)
    Class.new { include ActionView::Helpers::DateHelper }.new
  end

  def test_how_long_ago_something_was
    return if apart

    shop do
      words = self.words
      assert_good(@soon - 90 - Rational(1, 1000)) { words.distance_of_time_in_words(Time.current, @soon) }
      posted = Time.at(Time.now.to_i - (3 * 86_400))
      assert_good(posted + (3.5 * 86_400) - 30 - Rational(1, 1000)) { words.time_ago_in_words(posted) }
      assert_good(posted.in_time_zone + (3.5 * 86_400) - 30 - Rational(1, 1000)) { words.distance_of_time_in_words(posted.in_time_zone, Time.now) }
      I18n.backend.store_translations(:en, datetime: { distance_in_words: { x_days: ->(*) { Time.now.to_i.to_s } } })
      assert_equal(false, good_until { words.time_ago_in_words(posted) }, "a translation that reads the clock")
      years = good_until { words.time_ago_in_words(@past) }
      assert_operator years, :<=, Time.now.to_date.next_day.in_time_zone("UTC").to_r
      assert_refused(
        seconds: -> { words.time_ago_in_words(posted, include_seconds: true) }, both: -> { words.distance_of_time_in_words(1.hour.ago, Time.now) },
        date: -> { words.time_ago_in_words(Date.new(2020)) }, number: -> { words.distance_of_time_in_words(5, Time.now) }
      )
      assert_good(nil) { words.distance_of_time_in_words(@past, @soon) }
    end
  end

  # By chance, also around where the units change.
  def test_words_are_the_same_until_they_change
    return if apart

    shop do
      words, change = self.words, Paceline::AutoCache::Clock::Words.method(:change)
      random = Random.new(Integer(ENV.fetch("SEED", "1")))
      time = Time.at(1_700_000_000)
      say = ->(moment) { words.distance_of_time_in_words(Time.at(moment), time) }
      steps = [0, 1, 2, 44, 45, 89, 90, 1439, 1440, 2519, 2520, 43_199, 43_200, 86_399, 86_400, 525_599].map { |minutes| minutes * 60 }
      3000.times do
        away = [steps.sample(random: random) + random.rand(-200..200), random.rand(525_500 * 60)].sample(random: random) + Rational(random.rand(1000), 1000)
        moment = time.to_r + (away * [1, -1].sample(random: random))
        found = change.call(moment, time.to_r, &say) - Rational(1, 1000)
        next if found <= moment

        [1, 3, 500, 999, 1000].each { |part| assert_equal say.call(moment), say.call(moment + ((found - moment) * Rational(part, 1000))), "#{away.to_f} #{part}" }
        assert_operator found - moment, :>, 86_400 * 10, "months change seldom" if moment > time.to_r && away.between?(61 * 86_400, 64 * 86_400)
      end
    end
  end

  # Times up to this one.
  def within(random, time, change)
    left = change - time.to_r
    left.positive? ? [left / 1000, left * random.rand.rationalize(Rational(1, 1000)), left * 999_999 / 1_000_000].map { |seconds| time + [seconds, left * 999_999 / 1_000_000].min } : []
  end
end
