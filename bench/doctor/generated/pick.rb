# frozen_string_literal: true

# Random choices of a generated application: names, numbers and texts, always the same ones for a seed. No name comes twice in an application. No I/O.
module Bench
  module Generated
    class Pick
      NOUNS = %w[harbor ledger parcel voucher beacon lantern meadow orchard anchor basket candle copper feather gravel hammer ribbon saddle timber walnut pepper
                 marble bottle tunnel window garden pocket hollow kettle willow falcon cradle thistle bramble cobalt ember furrow glacier hazel juniper lichen].freeze
      VERBS = %w[gather compose assemble derive outline arrange describe weigh survey tabulate].freeze
      WORDS = %w[amber birch cedar delta fjord grove heath inlet kelp larch north pine quay reed slate tide].freeze

      attr_reader :random

      def initialize(random)
        @random = random
        @nouns = NOUNS.shuffle(random: random)
      end

      def one(list) = list[@random.rand(list.size)]
      def number(range) = @random.rand(range)
      def chance?(percent) = @random.rand(100) < percent
      def noun = @nouns.shift
      # As `harbor_ledger`.
      def name = "#{noun}_#{noun}"
      # A method's.
      def verb = "#{one(VERBS)}_#{noun}"
      # One that a variable or a constant can have beside any other.
      def variable = one(%w[entries rows items lines values records])
      def constant = "#{noun.upcase}#{one(["", "_TABLE", "_DATA", "_LIST"])}"
      def phrase(count) = Array.new(count) { one(WORDS) }.join(" ")

      def self.class_name(name) = name.split("_").map(&:capitalize).join
    end
  end
end
