# frozen_string_literal: true

require_relative "../cost"
require_relative "stored_rows"

# The part of FreeSql that is about associations. Loading `beer.brewery` by itself costs more than its query: a relation, its SQL, its log. What is
# loaded with `includes` costs none of this for each record, so in the later replays an association's records are made of its kept result at once.
module Paceline
  module Server
    module Shadow
      module Patches
        class FreeAssociations
          # Before ActiveRecord's Association.
          module Finding
            private

            def find_target(*, **options)
              options[:async] ? super : FreeSql.active.records(self) { super }
            end
          end

          # `queries`: the FreeSql, whose memory this is.
          def initialize(memory, queries)
            @memory = memory
            @queries = queries
            @selected = nil
          end

          # A query was answered with what is kept; nil: with something else.
          def selected(kept)
            @selected&.push(kept)
          end

          # See FreeSql#records.
          def records(association)
            key, kept = Cost.aside { kept(association) }
            return yield unless key
            return yield if kept ? @queries.made?(kept.shape) : !@memory.recording?
            return make(association, kept) if kept

            outer, @selected = @selected, []
            begin
              records = yield
              found = @selected.first if @selected.size == 1
              rows = StoredRows.of(association.klass, found.result, found.shape) if found
              @memory[key] = rows if rows
            ensure
              @selected = outer
            end
            records
          end

          private

          def kept(association)
            key = key(association)
            [key, @memory[key]] if key
          end

          # Nil: what it loads is not determined by this.
          def key(association)
            owner, reflection = association.owner, association.reflection
            return if owner.new_record? && !reflection.belongs_to?

            value = reflection.belongs_to? ? Array(reflection.foreign_key).map { |name| owner._read_attribute(name.to_s) } : owner.id
            [owner.class, reflection.name, association.klass, value]
          end

          def make(association, kept)
            kept.records.each { |record| association.set_inverse_instance(record) }
          end
        end
      end
    end
  end
end
