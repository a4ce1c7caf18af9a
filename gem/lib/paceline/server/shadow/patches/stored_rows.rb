# frozen_string_literal: true

# Rows of a query that records are made of, each time others: an application may change them. It makes no record of a query that selects more or less
# than a model's columns.
module Paceline
  module Server
    module Shadow
      module Patches
        class StoredRows
          attr_reader :shape

          # Nil: the rows of `result` are not just records of `klass`. `shape`: of the query.
          def self.of(klass, result, shape)
            new(klass, result, shape) if (klass.column_names - result.columns).empty?
          end

          def initialize(klass, result, shape)
            @klass = klass
            @shape = shape
            @rows = result.rows.map { |row| result.columns.zip(row).to_h }
            # Those that the class does not know.
            @types = result.column_types.reject { |name, _| klass.attribute_types.key?(name) }
          end

          def size
            @rows.size
          end

          def records
            @rows.map do |row|
              copied = row.transform_values { |value| value.is_a?(String) && !value.frozen? ? value.dup : value }
              @klass.instantiate(copied, @types)
            end
          end
        end
      end
    end
  end
end
