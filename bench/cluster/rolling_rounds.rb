# frozen_string_literal: true

# What clients saw of quiet times and of rolling restarts, which take turns. Arithmetic alone, so that bench/test can hold it to known answers.
require_relative "../lib/arithmetic"
require_relative "../restart/visit"

module Bench
  class RollingRounds
    # Pairs of times: without a restart, and from the order to restart until the last front has; and the VERSION that answers from then on.
    Phase = Struct.new(:quiet, :rolling, :version)
    # Times as RestartVisit has them, of requests that did not fail; numbers of those that did; of those that old code answered after the restart; and the seconds
    # that the restart took.
    Round = Struct.new(:quiet, :rolling, :failed_quiet, :failed_rolling, :old, :seconds) do
      # p99 during the restart, in units of that without.
      def ratio = Arithmetic.ratio(rolling.p99, quiet.p99)
    end

    # REQUESTS: SteadyLoad's, of all fronts.
    def initialize(requests, phases)
      @requests = requests
      @phases = phases
    end

    def rounds = @rounds ||= @phases.map { |phase| round(phase) }

    def count = @requests.size

    # Also of those between the phases.
    def failures = @requests.filter_map(&:failure).tally

    def ratios = rounds.filter_map(&:ratio)

    private

    def round(phase)
      quiet = within(*phase.quiet)
      rolling = touching(*phase.rolling)
      old = @requests.count { |request| request.failure.nil? && request.began > phase.rolling.last && request.version < phase.version }
      Round.new(RestartVisit.times(quiet), RestartVisit.times(rolling), quiet.count(&:failure), rolling.count(&:failure), old, phase.rolling.last - phase.rolling.first)
    end

    def within(from, to) = @requests.select { |request| request.began >= from && request.ended <= to }

    # A request that a restart may have had to do with belongs to it.
    def touching(from, to) = @requests.select { |request| request.ended >= from && request.began <= to }
  end
end
