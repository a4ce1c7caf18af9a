# frozen_string_literal: true

# The sums behind the figures: medians, percentiles, ratios. No I/O, so that bench/test can hold it to known answers.
module Bench
  module Arithmetic
    module_function

    # The middle value; of an even number of values the mean of the two in the middle. nil of none.
    def median(values)
      sorted = values.compact.sort
      return if sorted.empty?

      half = sorted.size / 2
      sorted.size.odd? ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2.0
    end

    # Nearest rank: the smallest value that at least PERCENT of all values don't exceed. No value is made up between two.
    def percentile(values, percent)
      return if values.empty?

      sorted = values.sort
      sorted[[(sorted.size * percent / 100.0).ceil - 1, 0].max]
    end

    # VALUE in units of BASE, nil if there is nothing to compare with.
    def ratio(value, base)
      value.to_f / base if value && base && base.positive?
    end

    # Those of rounds in which both were measured. VALUES, BASES: {round => figure}.
    def ratios(values, bases)
      values.filter_map { |round, value| ratio(value, bases[round]) }
    end

    # Microseconds of CPU for each of REQUESTS.
    def cpu_per_request(seconds, requests)
      seconds * 1_000_000 / requests if requests.positive?
    end
  end
end
