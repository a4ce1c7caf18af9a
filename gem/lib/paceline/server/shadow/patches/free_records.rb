# frozen_string_literal: true

require_relative "../place"
require_relative "memory"

# What if loading these records took no time? The first replay of a request keeps the records that a line loads, and the later ones get them again.
module Paceline
  module Server
    module Shadow
      module Patches
        class FreeRecords
          class << self
            # The one that is in use, or nil.
            attr_reader :active

            # `model`: a class' name; `at`: the line that loads its records, as in the evidence.
            def apply(params, shadow)
              raise Inapplicable, "the application does not use ActiveRecord" unless defined?(::ActiveRecord::Relation)

              model, at = params["model"].to_s, params["at"].to_s
              raise Inapplicable, "no records are named" if model.empty? || at.empty?

              @active = new(model, at, shadow)
              ::ActiveRecord::Relation.prepend(Loading)
            end
          end

          # Before ActiveRecord::Relation: `to_a`, `each` and the like.
          module Loading
            private

            def exec_queries(&block)
              FreeRecords.active.records(self, block) { super(&block) }
            end
          end

          def initialize(model, at, shadow)
            @model = model
            @at = at
            @place = Place.new(shadow.root)
            @memory = Memory.new(shadow)
          end

          # The kept records, or what the block returns. `each_record`: what ActiveRecord does with each of them, or nil.
          def records(relation, each_record)
            return yield unless relation.klass.name == @model && @place.of(caller_locations(2)) == @at

            number = @memory.next_number(:loads)
            kept = @memory[number] unless @memory.recording?
            return yield.tap { |records| @memory[number] = records.dup } unless kept

            kept.each(&each_record) if each_record
            kept.dup.freeze
          end
        end
      end
    end
  end
end
