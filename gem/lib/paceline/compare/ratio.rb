# frozen_string_literal: true

module Paceline
  module Compare
    # B's figure divided by A's, of rounds in which both were measured, with the interval that contains the true ratio in 99 of 100 cases: the paired t
    # interval of the logarithms, as `paceline bench A B` has it. A pure value: it measures nothing.
    class Ratio
      # The 99.5th percentile of the normal distribution: both tails together are 1 %.
      Z = 2.5758
      # Fewer rounds say nothing of chance.
      LEAST = 5
      # From here on percents are hard to read.
      TWICE = 2
      private_constant :Z, :TWICE

      attr_reader :middle, :low, :high

      # Of figures, round by round. Nil: fewer than five rounds, or a figure is missing or not above 0.
      def self.of(a, b)
        pairs = a.zip(b)
        return if pairs.size < LEAST || pairs.flatten.any? { |figure| figure.nil? || !figure.positive? }
        logs = pairs.map { |of_a, of_b| Math.log(of_b.fdiv(of_a)) }
        mean = logs.sum / logs.size
        variance = logs.sum { |log| (log - mean)**2 } / (logs.size - 1)
        half = t_quantile(logs.size - 1.0) * Math.sqrt(variance / logs.size)
        new(Math.exp(mean), Math.exp(mean - half), Math.exp(mean + half))
      end

      # Student's t at 99.5 %, by Fisher's expansion (Abramowitz and Stegun 26.7.5).
      def self.t_quantile(freedom)
        Z + (Z**3 + Z) / (4 * freedom) + (5 * Z**5 + 16 * Z**3 + 3 * Z) / (96 * freedom**2) +
          (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / (384 * freedom**3)
      end

      def initialize(middle, low, high)
        @middle = middle
        @low = low
        @high = high
      end

      # The interval does not contain 1.
      def different?
        low > 1 || high < 1
      end

      # MORE, LESS and AS: words for above and below 1, and for so many times. Like "31 % faster (29 to 33)", "2.1 times as fast (1.9 to 2.3)".
      def words(more, less, as)
        return format("no difference (%+.1f to %+.1f %%)", percent(low), percent(high)) unless different?
        return format("%.1f times as #{as} (%.1f to %.1f)", middle, low, high) if middle >= TWICE
        word, figures = middle > 1 ? [more, [middle, low, high].map { |one| percent(one) }] : [less, [middle, high, low].map { |one| -percent(one) }]
        digits = figures.first < 10 ? 1 : 0
        format("%.#{digits}f %% #{word} (%.#{digits}f to %.#{digits}f)", *figures)
      end

      def to_h
        { "middle" => middle, "low" => low, "high" => high, "different" => different? }
      end

      private

      def percent(ratio)
        (ratio - 1) * 100
      end
    end
  end
end
