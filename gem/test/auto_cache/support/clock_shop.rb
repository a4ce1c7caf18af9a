# frozen_string_literal: true

require "paceline/auto_cache"

# An application without pages: until when one would be good that looks at the clock. Time is changed, so each test has a process of its own.
module ClockShop
  HERE = Gem::Specification.find_all_by_name("activesupport").any?

  def setup
    skip "Active Support is not here" unless HERE
  end

  def shop
    require "active_support/all"
    require "paceline/auto_cache/clock"
    Paceline::AutoCache::Clock::Methods.install
    Paceline::AutoCache.instance_variable_set(:@readers, Paceline::AutoCache::Readers.new(File.expand_path("..", __dir__)))
    Time.zone = "Berlin"
    @soon = Time.at(Time.now.to_i + 100)
    @zoned = @soon.in_time_zone
    @past = Time.at(1000)
    # Active Support 7.2 asks once which zone the machine has.
    @soon.to_time
    yield
  end

  def recording_of
    recording = Paceline::AutoCache::Recording.new(Paceline::AutoCache.readers)
    Paceline::AutoCache.with(recording) { yield }
    recording
  end

  # Until when a page is good that does this (s since 1970); nil: for ever; false: it is refused.
  def good_until(&act)
    entries = []
    recording_of { act.call }.each { |*fields, place| entries << [fields, place] }
    entries.each { |_, place| assert_match(/\Aclock_\w+\.rb:\d+\z/, place) }
    moments = entries.filter_map { |fields, _| Rational(fields.last, 1000) if fields.first == "W" }
    entries.any? { |fields, _| fields.first == "M" } ? false : moments.first
  end

  def assert_good(time, name = nil, &) = assert_equal(time && time.to_r.floor(3), good_until(&), name)

  def assert_refused(all)
    all.each { |name, act| assert_equal false, good_until(&act), name }
  end
end
