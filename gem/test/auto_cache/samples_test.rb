# frozen_string_literal: true

require "minitest/autorun"
require "support/stub"
require "paceline/auto_cache"
require "paceline/auto_cache/samples"

# Which requests are recorded in mode watch.
class AutoCacheSamplesTest < Minitest::Test
  Samples = Paceline::AutoCache::Samples

  def test_the_first_are_taken_and_then_those_of_half_a_second_in_twenty
    samples = Samples.new
    assert Array.new(Samples::FIRST) { samples.take?(5.0) }.all?
    taken = Array.new(200) { |tenth| samples.take?(40.0 + (tenth / 10.0)) }
    assert_equal [true] * 5, taken.first(5)
    refute taken.drop(5).any?
  end

  def test_what_is_not_taken_reaches_the_application_as_it_is
    seen = []
    never = Object.new.tap { |samples| samples.define_singleton_method(:take?) { false } }
    Paceline::AutoCache.stub(:sink, -> { ->(*) { flunk } }) do
      app = Paceline::AutoCache::Middleware.new(->(env) { [200, {}, [seen << env]] }, samples: never)
      env = { "REQUEST_METHOD" => "GET" }
      app.call(env)
      assert_same env, seen.first
      refute env.key?("paceline.recording")
    end
  end
end
