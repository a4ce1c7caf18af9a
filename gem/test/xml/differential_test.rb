# frozen_string_literal: true

require "helper"
require "xml/support/pair"
require "xml/support/generator"
require "xml/support/shrinker"

# Programs of builder calls at random, done by the gem builder and by ours: the same bytes, the same exceptions, the same values returned.
#
#   SEED=7 COUNT=1000000 ruby -Igem/lib -Igem/test gem/test/xml/differential_test.rb   more of them
#   PROGRAM='{...}' ruby ...                                                          one that failed, as it was printed
class XMLDifferentialTest < Paceline::Test
  SEED = Integer(ENV.fetch("SEED", "1"))
  COUNT = Integer(ENV.fetch("COUNT", "4000"))

  def setup
    skip "the gem builder is not installed" unless XMLPrograms::Pair.stock
    @pair = XMLPrograms::Pair
  end

  def test_programs_of_builder_calls
    return check(eval(ENV["PROGRAM"])) if ENV["PROGRAM"]

    COUNT.times { |number| check(XMLPrograms::Generator.new(SEED * 1_000_000_007 + number, @pair.names).program) }
    assert_operator @pair.distinct, :>, COUNT / 2, "the programs hardly differ in what they do"
  end

  private

  def check(program)
    return pass if @pair.same?(program)

    small = XMLPrograms::Shrinker.new { |candidate| !@pair.same?(candidate) }.shrink(program)
    stock, ours = @pair.outcomes(small)
    flunk "PROGRAM='#{small.inspect}'\n  Builder: #{stock.inspect}\n  ours:    #{ours.inspect}"
  end
end
