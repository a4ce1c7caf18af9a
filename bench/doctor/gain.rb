# frozen_string_literal: true

# The sums of `bin/bench doctor`: what a cure brings, and whether that was predicted. No I/O.
require_relative "../lib/arithmetic"

module Bench
  # What fault and clean twin take of the same thing. UNIT: "ms", "bytes" or "requests".
  DoctorGain = Struct.new(:unit, :fault, :clean, keyword_init: true) do
    # Of several measurements.
    def self.mean(gains)
      fault, clean = %i[fault clean].map { |variant| gains.sum(&variant) / gains.size.to_f }
      new(unit: gains.first.unit, fault: fault, clean: clean)
    end

    # 0.61: the cure takes 61 % away.
    def share = fault.positive? ? 1 - (clean.to_f / fault) : 0.0
    def saved = fault - clean
    def fault? = share >= DoctorSums::FAULT
  end

  module DoctorSums
    # Of the gain that was measured.
    TOLERANCE = 0.15
    # From which part of a request a fault is one.
    FAULT = 0.10

    module_function

    # How far PREDICTED is from MEASURED, as a part of MEASURED: below zero if less was predicted. nil without both.
    def miss(predicted, measured)
      (predicted - measured) / measured.abs if predicted && measured && !measured.zero?
    end

    # Whether a prediction holds: by at most the tolerance on the sides that BOUND leaves open. nil without both.
    def holds?(predicted, measured, bound = "measured")
      off = miss(predicted, measured) or return
      (bound == "at_most" || off <= TOLERANCE) && (bound == "at_least" || off >= -TOLERANCE)
    end

    # [true, false, ...] as "9 of 10", without those that are nil.
    def count(answers)
      known = answers.compact
      "#{known.count(true)} of #{known.size}"
    end
  end
end
