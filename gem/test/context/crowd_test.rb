# frozen_string_literal: true

require "helper"
require "context/support/crowd"

# 20,000 requests of random users that end in all ways; `bin/soak context` makes a million.
class ContextCrowdTest < Minitest::Test
  def test_nobody_is_taken_for_another
    seed = Random.new_seed
    crowd = Crowd.new(requests: 20_000, seed: seed).run

    assert_empty crowd.wrong, "seed #{seed}"
    (Crowd::SHARES.keys - [:kills_itself]).each { |kind| assert_operator crowd.counts[kind], :>, 0, kind }
    assert_operator crowd.interrupted, :>, 0
    refute_predicate Paceline.current, :active?
  end
end
