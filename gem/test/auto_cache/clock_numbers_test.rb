# frozen_string_literal: true

require "helper"
require "auto_cache/support/clock_shop"

# Numbers that are made of the clock, times that are rounded, and dates beside times: until when a page is good that compares them. Each test in a process of its own.
class AutoCacheClockNumbersTest < Paceline::Test
  include ClockShop

  # Within a microsecond before it.
  def assert_nearly(time, name = nil, &)
    found = good_until(&)
    assert_kind_of Rational, found, name
    assert_includes (time.to_r - Rational(2, 1000))..time.to_r, found, name
  end

  def test_a_number_that_its_line_compares
    return if apart

    shop do
      stored = @soon.to_i
      session = { "at" => stored }
      [
        -> { stored > Time.now.to_i }, -> { session["at"].to_i > Time.now.to_i + 1 - 1 }, -> { Time.now.to_i >= stored }, -> { Time.current.to_i >= stored },
        -> { stored <= Time.current.to_f }, -> { Time.now.to_r > stored }, -> { stored.to_f > Time.now.to_f }, -> { stored - Time.now.to_i <= 0 },
        -> { Time.now.to_i - stored >= 0 }, -> { (Time.now - @past) >= stored - 1000 }, -> { @zoned - Time.current > 0 }, -> { @soon - Time.now < 0.0 },
        -> { (Time.current - @zoned).positive? }, -> { (@soon - Time.now) / 60 < 0 }, -> { ((Time.now - @past) / 1).floor >= (stored - 1000) / 1 },
        -> { Time.now.to_i.between?(1, stored) }, -> { stored.to_r > Time.now.to_i }, -> { Time.now - @soon > 0.seconds }, -> { 3 > 2 && -(Time.now - @soon) < 0 },
        -> { stored == Time.now.to_i }, -> { Time.now.to_i == stored }, -> { (Time.now.to_i <=> stored) == 1 }, -> { Time.now.to_i != stored }, -> { Time.now.to_i >= (session["at"] || 5) },
        -> { session["at"].to_i > 0.minutes.ago.to_i }, -> { Time.now.to_f.round >= stored + 1 || Time.now.to_i >= stored }
      ].each_with_index { |act, nth| assert_includes [@soon.to_r, @soon.to_r + Rational(1, 2)], good_until(&act).ceil(2), "#{nth}: #{good_until(&act).to_f - @soon.to_f}" }
      assert_nearly(@soon + 900) { session["at"].to_i > 15.minutes.ago.to_i }
      assert_nearly(@soon + 300) { Time.current - @zoned > 5.minutes }
      assert_nearly(@soon + 300) { 5.minutes < Time.current - @zoned }
      # Then it is the same, and a second later more.
      assert_nearly(@soon) { Time.now.to_i > stored }
      assert_nearly(@soon - 7) { 7 + Time.now.to_i >= stored }
      assert_nearly(@soon + 86_400) { (Time.now.to_i - stored) / 86_400 >= 1 }
      assert_good(nil) { Time.now.to_i > 5 }
      assert_good(nil) { nil.to_i > 15.minutes.ago.to_i }
      assert_good(nil) { (Time.now - @past).positive? }
    end
  end

  # It is what it would be without all this.
  def test_what_comes_of_a_number
    return if apart

    shop do
      stored = @soon.to_i
      recording_of do
        assert_equal [true, false, false, true], [stored > Time.now.to_i, Time.now.to_i >= stored, stored == Time.now.to_i, Time.now.to_i != stored]
        assert_raises(ArgumentError) { Time.now.to_i > "5" }
        assert_raises(NoMethodError) { nil > Time.now.to_i }
        assert_raises(ZeroDivisionError) { Time.now.to_i / 0 > 5 }
        assert_kind_of Integer, Time.now.to_i
        assert_equal "Integer", (Time.now.to_i + 1).class.name
        assert_equal Time, (@past + (Time.now - @past)).class
        assert_in_delta Time.now.to_f, (@past + (Time.now - @past)).to_f, 1
      end
    end
  end

  def seconds = Time.now.to_i
  def age(time) = Time.now - time
  def twice(time) = age(time) * 2
  def old?(time) = age(time) > 5
  def in_a_variable(time)
    now = Time.now.to_i
    elapsed = now - time.to_i
    return false if elapsed < 0

    elapsed > 10 && now > 5
  end

  def of_a_block(time) = [time].any? { |one| Time.now - one > 7 }
  def guarded(time)
    seconds > begin
      Integer("x")
    rescue ArgumentError
      time.to_i
    end
  end

  def test_a_method_that_returns_it_and_a_variable
    return if apart

    shop do
      assert_nearly(@soon) { seconds >= @soon.to_i }
      assert_nearly(@soon + 5) { age(@soon) > 5 }
      assert_nearly(@soon + 5) { twice(@soon) > 10 }
      assert_nearly(@soon + 5) { old?(@soon) }
      assert_nearly(@soon) { in_a_variable(@soon) }
      assert_nearly(@soon + 7) { of_a_block(@soon) }
      assert_nearly(@soon) { guarded(@soon) }
      past = Time.now - 5
      assert_nearly(past.floor + 10) { in_a_variable(past) }
    end
  end

  def shown(time)
    now = Time.now.to_i
    now > time.to_i ? now : 0
  end

  def by_binding(time)
    now = Time.now.to_i
    binding.local_variable_get(:now) > time.to_i
  end

  def by_block(time)
    now = Time.now.to_i
    [1].map { now.to_s }
    now > time.to_i
  end

  def yielded(time) = yield(Time.now - time)
  # It bears the name of the method in C that calls.
  def map(times) = times.map(&:to_i).first.to_s + (times.last.to_i > 5).to_s

  # Instructions that are passed while the number waits on the stack.
  def kept(*rest, at: 0, more: 0, **options) = (rest.size * 0) + at + (more * 0) + (block_given? ? yield : 0) + (options.size * 0)

  def test_a_number_that_waits_for_the_other
    return if apart

    shop do
      stored, @kept, all, named = @soon.to_i, @soon.to_i, [1, 2], { at: @soon.to_i, other: 5 }
      {
        named: -> { Time.now.to_i >= kept(1, 2, at: stored, more: 3) }, splat: -> { Time.now.to_i >= kept(*all, 3, at: stored) }, hash: -> { Time.now.to_i >= kept(**named) },
        nothing: -> { Time.now.to_i >= kept(at: stored, &nil) }, text: -> { Time.now.to_i >= "#{stored}#{5 if all.empty?}".to_i }, choice: -> { Time.now.to_i >= (all.empty? ? 5 : stored) },
        either: -> { Time.now.to_i >= (@none || @kept) }, array: -> { Time.now.to_i >= [1, stored, *all].max }, lookup: -> { Time.now.to_i >= { a: stored }.fetch(:a, nil) },
        safe: -> { Time.now.to_i >= named&.[](:at) }, constant: -> { Time.now.to_i >= Integer(stored.to_s, 10) }, negated: -> { !(Time.now.to_i >= stored) }, range: -> { Time.now.to_i >= (1..stored).max }
      }.each { |name, act| assert_nearly(@soon, name, &act) }
      assert_refused(named: -> { kept(at: Time.now.to_i, more: stored) }, splat: -> { kept(Time.now.to_i, *all) > 5 }, hash: -> { kept(**{ at: Time.now.to_i }) }, array: -> { [stored, Time.now.to_i] },
                     choice: -> { (Time.now.to_i if stored) && 5 }, text: -> { "#{Time.now.to_i}" > "5" }, default: -> { Time.now.to_i.then { |now| now > stored } })
    end
  end

  def test_a_number_that_goes_elsewhere
    return if apart

    shop do
      evaluated = eval("->(time) { Time.now.to_i > time.to_i }", binding, __FILE__, __LINE__)
      assert_refused(
        text: -> { Time.now.to_i.to_s }, argument: -> { Integer(Time.now.to_i) > 5 }, array: -> { [Time.now.to_i, 5].max > 5 }, returned: -> { seconds }, shown: -> { shown(@past) },
        returned_text: -> { "#{age(@past)}" }, binding: -> { by_binding(@past) }, block: -> { by_block(@past) }, yielded: -> { yielded(@past) { |number| number > 5 } },
        symbol: -> { [Time.now].map(&:to_i).first > 5 }, sent: -> { Time.now.public_send(:to_i) > 5 }, same_name: -> { map([Time.now]) }, modulo: -> { Time.now.to_i % 60 > 5 },
        below: -> { 5 / (Time.now - @past) > 1 }, both: -> { Time.now.to_i > Time.now.to_i - 5 }, two: -> { Time.now - 5.minutes.ago > 5 }, evaluated: -> { evaluated.call(@past) },
        stored: -> { @stored = Time.now.to_i }, compared_text: -> { (Time.now.to_i > "5") rescue 0 }, time: -> { @past + (Time.now - @past) > @soon }, hash: -> { { Time.now.to_i => 1 }[5] },
        absolute: -> { (Time.now - @soon).abs > 5 }, condition: -> { Time.now.to_i || 5 }, unused: -> { Time.now.to_i; 5 }, safe: -> { Time.now.to_i&.to_s }, range: -> { (1..5) === Time.now.to_i }
      )
      assert_good(@soon) { Time.now > @soon }
    end
  end

  def test_code_that_is_another_than_its_file
    return if apart

    shop do
      folder = Dir.mktmpdir
      path = File.join(folder, "clock_late.rb")
      File.write(path, "class Late\n  def late?(time) = Time.now.to_i > time.to_i\nend\n")
      load path
      assert_equal false, good_until { Late.new.late?(@soon) }
    ensure
      FileUtils.rm_rf(folder)
    end
  end

  module Bootsnap
    def load_iseq(_) = nil
    def self.to_s = "Bootsnap::CompileCache::ISeq::InstructionSequenceMixin"
  end

  # Bootsnap keeps what Ruby has compiled; others may compile something else.
  def test_what_loads_code_in_another_way
    return if apart

    shop do
      RubyVM::InstructionSequence.singleton_class.prepend(Bootsnap)
      assert_nearly(@soon) { Time.now.to_i >= @soon.to_i }
      RubyVM::InstructionSequence.singleton_class.prepend(Module.new { def load_iseq(_) = nil })
      assert_equal false, good_until { Time.now.to_i > @soon.to_i }
    end
  end

  def test_rounded_times
    return if apart

    shop do
      assert_good(@soon) { Time.now.floor >= @soon }
      assert_good(@soon) { Time.current.change(usec: 0) > @zoned }
      assert_good(@soon) { Time.now.change(usec: 0) == @soon }
      assert_good(@soon - 0.5) { Time.now.round > @soon }
      assert_good(@soon - 0.5) { Time.now.round >= @soon }
      assert_good(@soon) { Time.now.floor(3) > @soon }
      assert_good(@soon + 60) { 1.minute.ago.change(usec: 0) >= @soon }
      minute = Time.at((@soon.to_i / 60 * 60) + 120).in_time_zone
      assert_good(minute) { minute <= Time.current.beginning_of_minute }
      assert_good(minute) { minute - 30 < Time.current.change(sec: 0) }
      assert_good(minute - 60) { Time.current.change(sec: 30) > minute - 35 }
      hour = Time.at((Time.now.to_i / 3600 * 3600) + 3600)
      assert_includes [hour, hour + 3600].map(&:to_r), good_until { hour.in_time_zone > Time.current.beginning_of_hour }
      assert_includes [hour, hour + 3600].map(&:to_r), good_until { Time.current.change(min: 5).to_s }
      assert_includes [hour, hour + 3600].map(&:to_r), good_until { Time.current.end_of_hour.to_s }
      assert_operator good_until { Time.current.change(hour: 9).to_s }, :<=, (Time.current.to_date + 1).in_time_zone.to_r
      assert_refused(text: -> { Time.current.change(usec: 0).to_s }, ceil: -> { Time.now.ceil > @soon }, offset: -> { Time.now.change(offset: 5) > @soon })
    end
  end

  def test_a_date_beside_a_time
    return if apart

    shop do
      tomorrow = Date.today + 2
      midnight = Time.utc(tomorrow.year, tomorrow.month, tomorrow.day)
      [-> { Time.now > tomorrow }, -> { tomorrow > Time.now }, -> { Time.current >= tomorrow }, -> { tomorrow <= Time.current }, -> { tomorrow.to_datetime > Time.now }, -> { Time.current > midnight.to_datetime },
       -> { (Date.new(2020)..tomorrow).cover?(Time.now) }, -> { Time.now == tomorrow }, -> { Time.now.before?(tomorrow) }].each_with_index { |act, nth| assert_good(midnight, nth, &act) }
      assert_good(midnight + 86_400) { 24.hours.ago > tomorrow }
      assert_good(nil) { Date.new(2020) < Time.now }
    end
  end

  STEPS = [
    ->(number, by) { number + by }, ->(number, by) { by + number }, ->(number, by) { number - by }, ->(number, by) { by - number }, ->(number, by) { number * by },
    ->(number, by) { by * number }, ->(number, by) { number / by }, ->(number, _) { -number }, ->(number, _) { number.floor }, ->(number, _) { number.round },
    ->(number, _) { number.ceil }, ->(number, _) { number.to_i }, ->(number, _) { number.to_f }, ->(number, _) { number.to_r }
  ].freeze
  COMPARISONS = %i[< <= > >= == <=>].freeze

  # By chance: a page that compares a number says until when the comparison comes out as it did.
  def test_no_comparison_of_a_number_changes_before_it_is_said
    return if apart

    shop do
      clock = Paceline::AutoCache::Clock
      clock::Uses.define_singleton_method(:known?) { |*, **| true }
      random = Random.new(Integer(ENV.fetch("SEED", "1")))
      ended = 0
      2000.times do
        now = Rational(random.rand(1_700_000_000_000..1_700_000_900_000), 1000)
        begin_with = [:to_i.to_proc, :to_f.to_proc, :to_r.to_proc].sample(random: random)
        steps = Array.new(random.rand(4)) { [STEPS.sample(random: random), [1, 2, 60, 3600, -7, 0.5, 1.5, 86_400, Rational(1, 3), 1_700_000_000].sample(random: random)] }
        plain = ->(moment) { steps.inject(begin_with.call(Time.at(moment))) { |number, (step, by)| step.call(number, by) } }
        other = plain.call(now + random.rand(-5..5000))
        comparison = COMPARISONS.sample(random: random)
        swapped = random.rand < 0.3
        compare = ->(number) { swapped ? other.public_send(comparison, number) : number.__send__(comparison, other) }
        expected = compare.call(plain.call(now))

        recording = Paceline::AutoCache::Recording.new(Paceline::AutoCache.readers)
        Paceline::AutoCache.with(recording) do
          number = clock::Seconds.of(clock::Mark.new(recording, "Time.now", "here", now), begin_with.call(Time.at(now)), :to_i) { |moment| begin_with.call(Time.at(moment)) }
          number = steps.inject(number) { |made, (step, by)| step.call(made, by) }
          assert_equal expected, compare.call(number)
        end
        recording.each { |*fields, _| refute_equal "M", fields.first }
        found = recording.instance_variable_get(:@until)&.first
        ended += 1 if found
        last = found ? found - now : Rational(10_000_000)
        [0, 1, 500, 999, 1000].each { |part| assert_equal expected, compare.call(plain.call(now + (last * part / 1000))), "#{steps.map(&:last)} #{comparison} #{other} #{begin_with.inspect} #{now} #{found.inspect} #{part} #{swapped}" }
      end
      assert_operator ended, :>, 500
    end
  end

  # By chance, of times that were moved and rounded.
  def test_no_comparison_of_a_rounded_time_changes_before_it_is_said
    return if apart

    shop do
      random = Random.new(Integer(ENV.fetch("SEED", "1")))
      5000.times do
        recording = Paceline::AutoCache::Recording.new(Paceline::AutoCache.readers)
        mark = Paceline::AutoCache::Clock::Mark.new(recording, "Time.now", "here", Rational(random.rand(1_700_000_000_000..1_700_000_900_000), 1000))
        random.rand(4).times do
          mark = random.rand < 0.5 ? mark.moved(Rational(random.rand(-200_000..200_000), 100)) : mark.floored([Rational(1, 1000), 1, 60, 3600].sample(random: random), [0, 0, 1800, 7200].sample(random: random)) || mark
        end
        time = mark.at(mark.now + random.rand(-5..9000)) + [0, 0, Rational(1, 3), 60].sample(random: random)
        expected = mark.at(mark.now) <=> time
        mark.compare(time)
        found = recording.instance_variable_get(:@until)&.first
        last = found ? found - mark.now : Rational(10_000_000)
        (found && last.zero? ? [0] : [0, 1, 500, 999, 999_999]).each do |part|
          assert_equal expected, mark.at(mark.now + (last * part / (part > 1000 ? 1_000_000 : 1000))) <=> time
        end
        assert_operator last, :>=, 0
      end
    end
  end
end
