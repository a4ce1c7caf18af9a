# frozen_string_literal: true

require_relative "../cost"
require_relative "../evidence/sql_shape"
require_relative "free_associations"
require_relative "free_relations"
require_relative "memory"

# What if these queries took no time? The first replay of a request keeps their results, the later ones get copies of them. Queries that the first one
# did not make are really made. Of repeated queries the first one is made, too: the author can put all of them into one, and that one costs something.
# Records are made of the results each time, as they are of those of one large query; relations and SQL are not, since that one has its own.
module Paceline
  module Server
    module Shadow
      module Patches
        class FreeSql
          # A result and the shape of its query.
          StoredResult = Struct.new(:result, :shape)
          private_constant :StoredResult

          class << self
            # The one that is in use, or nil.
            attr_reader :active

            # `shapes`: as in the evidence. `all`: of repeated queries also the first one takes no time.
            def apply(params, shadow)
              raise Inapplicable, "the application does not use ActiveRecord" unless defined?(::ActiveRecord::ConnectionAdapters::AbstractAdapter)

              shapes = Array(params["shapes"])
              raise Inapplicable, "no queries are named" if shapes.empty?

              @active = new(shapes, shadow, all: params["all"] == true)
              ::ActiveRecord::ConnectionAdapters::AbstractAdapter.prepend(Selecting)
              ::ActiveRecord::Associations::Association.prepend(FreeAssociations::Finding)
              FreeRelations.install
            end
          end

          # Before ActiveRecord's `select_all`, and so before its query cache and its log.
          module Selecting
            def select_all(arel, name = nil, binds = [], preparable: nil, **options)
              return super if options[:async]

              sql, values, preparable = to_sql_and_binds(arel_from_relation(arel), binds, preparable)
              FreeSql.active.result(self, sql, values) { super(sql, name, values, preparable: preparable, **options) }
            end
          end

          def initialize(shapes, shadow, all: false)
            @wanted = shapes.to_h { |shape| [shape, true] }
            @all = all
            @memory = Memory.new(shadow)
            @associations = FreeAssociations.new(@memory, self)
            @relations = FreeRelations.new(shadow, self)
          end

          attr_reader :relations

          # The records of an association: made of what is kept, or what the block returns.
          def records(association, &block)
            @associations.records(association, &block)
          end

          # The kept result, or what the block returns.
          def result(connection, sql, values)
            key, kept = Cost.aside { kept(connection, sql, values) }
            if kept.nil? || made?(kept.shape)
              result = yield
              kept ||= keep(key, result, connection) if @memory.recording?
            end
            count(kept.shape) if kept
            @associations.selected(kept)
            @relations.selected(kept)
            result || copy(kept.result)
          end

          # Whether the next query of this shape is really made.
          def made?(shape)
            !@all && !@memory.recording? && @memory[shape] && @memory.number(shape).zero?
          end

          private

          def kept(connection, sql, values)
            key = [connection.pool.object_id, sql, plain(values)]
            [key, @memory[key]]
          end

          def plain(values)
            values.map { |value| value.respond_to?(:value_for_database) ? value.value_for_database : value }
          end

          def keep(key, result, connection)
            shape = Evidence::SqlShape.of(key[1], connection.adapter_name.to_s)
            return unless @wanted[shape] && result.respond_to?(:rows)

            @memory[key] = StoredResult.new(copy(result), shape)
          end

          # A query that was made twice is repeated.
          def count(shape)
            @memory[shape] = true if @memory.next_number(shape).positive? && @memory.recording?
          end

          # ActiveRecord and the application may change rows and strings.
          def copy(result)
            rows = result.rows.map { |row| row.map { |value| value.is_a?(String) && !value.frozen? ? value.dup : value } }
            result.dup.tap { |copied| copied.instance_variable_set(:@rows, rows) }
          end
        end
      end
    end
  end
end
