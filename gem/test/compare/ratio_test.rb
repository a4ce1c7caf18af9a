# frozen_string_literal: true

require "helper"
require "paceline/compare/ratio"

# The ratio of rounds, its range, and the words for it: known figures, and chance.
class CompareRatioTest < Minitest::Test
  Ratio = Paceline::Compare::Ratio

  def test_a_ratio_that_is_the_same_in_each_round_has_no_range
    ratio = Ratio.of([100.0, 200.0, 50.0, 10.0, 3.0], [50.0, 100.0, 25.0, 5.0, 1.5])
    [ratio.middle, ratio.low, ratio.high].each { |one| assert_in_delta 0.5, one }
    assert_predicate ratio, :different?
  end

  # By hand: logarithms 0, 0.1, 0.2, 0.3, 0.4; mean 0.2, standard error 0.0707; t of 4 degrees of freedom is 4.604.
  def test_the_t_interval
    ratio = Ratio.of([1.0] * 5, [0, 0.1, 0.2, 0.3, 0.4].map { |log| Math.exp(log) })
    assert_in_delta Math.exp(0.2), ratio.middle
    assert_in_delta Math.exp(0.2 + 4.604 * 0.0707), ratio.high, 0.02
    refute_predicate ratio, :different?
  end

  def test_students_values
    { 5.0 => 4.032, 10.0 => 3.169, 30.0 => 2.750 }.each { |freedom, t| assert_in_delta t, Ratio.t_quantile(freedom), 0.05 }
  end

  def test_too_little_says_nothing
    assert_nil Ratio.of([1.0] * 4, [2.0] * 4)
    assert_nil Ratio.of([1.0] * 5, [2.0, 2.0, 2.0, 2.0, nil])
    assert_nil Ratio.of([0.0] * 5, [2.0] * 5)
  end

  def test_chance_is_rarely_taken_for_a_difference
    random = Random.new(1)
    side = -> { Array.new(7) { 1000 * (1 + 0.3 * random.rand) } }
    same = Array.new(200) { Ratio.of(side.call, side.call) }.count { |ratio| !ratio.different? }
    assert_operator same, :>=, 192
  end

  def test_words
    words = ->(*figures) { Ratio.new(*figures).words("faster", "slower", "fast") }
    assert_equal "2.1 times as fast (1.9 to 2.3)", words[2.1, 1.9, 2.3]
    assert_equal ["31 % faster (29 to 33)", "4.0 % slower (2.0 to 6.0)", "no difference (-1.0 to +2.0 %)"], [words[1.31, 1.29, 1.33], words[0.96, 0.94, 0.98], words[1.0, 0.99, 1.02]]
  end
end
