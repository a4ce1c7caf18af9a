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
    STOCK = (defined?(::Builder::XmlMarkup) ? [::Builder::XmlBase, ::Builder::XmlMarkup, ::Builder::XmlEvents] : []).freeze
    OURS = [Paceline::XML::Base, Paceline::XML::Builder, Paceline::XML::Events].freeze

    class << self
      attr_reader :stock, :ours

      def names = @ours.keys - [:base]

      def outcomes(program) = [Run.new(program, @stock).outcome, Run.new(program, @ours).outcome]

      def same?(program)
        stock, ours = outcomes(program)
        (@seen ||= {})[stock.hash] = true
        stock == ours
      end

      # How many different outcomes there were.
      def distinct = @seen.size
    end

    raise "Builder::XmlMarkup is ours already: nothing to compare with" if (STOCK & OURS).any?

    @stock = Hooks.classes(*STOCK) if STOCK.any?
    @ours = Hooks.classes(*OURS)
  end
end
