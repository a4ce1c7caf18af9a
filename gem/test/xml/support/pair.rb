# frozen_string_literal: true

require "paceline/xml"
require_relative "program"
require_relative "hooks"

begin
  require "builder"
rescue LoadError
  # The tests that compare are skipped.
end

module XMLPrograms
  # The gem builder and ours, side by side.
  module Pair
    STOCK = { markup: defined?(::Builder::XmlMarkup) && ::Builder::XmlMarkup, events: defined?(::Builder::XmlEvents) && ::Builder::XmlEvents }.freeze

    class << self
      attr_reader :stock, :ours

      def names = @ours.keys

      def outcomes(program) = [Run.new(program, @stock).outcome, Run.new(program, @ours).outcome]

      def same?(program)
        stock, ours = outcomes(program)
        (@seen ||= {})[stock.hash] = true
        stock == ours
      end

      # How many different outcomes there were.
      def distinct = @seen.size
    end

    raise "Builder::XmlMarkup is ours already: nothing to compare with" if STOCK[:markup].equal?(Paceline::XML::Builder)

    @stock = Hooks.classes(STOCK[:markup], STOCK[:events]) if STOCK[:markup]
    @ours = Hooks.classes(Paceline::XML::Builder, Paceline::XML::Events)
  end
end
