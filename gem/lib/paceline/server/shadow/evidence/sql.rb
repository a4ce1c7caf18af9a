# frozen_string_literal: true

require_relative "observer"
require_relative "sql_scan"
require_relative "sql_shape"

# The queries that ActiveRecord makes, by their shape. It keeps no values beyond the request.
module Paceline
  module Server
    module Shadow
      class Evidence
        class Sql < Observer
          # Rails' own queries, which no change of the application avoids.
          APART = %w[SCHEMA TRANSACTION EXPLAIN].freeze
          # So many shapes are reported, those that took longest.
          LIMIT = 200
          private_constant :APART, :LIMIT

          # Queries of one shape. `values`: those that were seen; `example`: an SQL text, with the pool of its connection.
          Shape = Struct.new(:name, :count, :values, :us, :rows, :cached, :places, :example, :pool, :scan)
          private_constant :Shape

          # Before ActiveRecord's `select_all`, for the number of rows: Rails tells it from 7.2 on only.
          module Rows
            def select_all(*, **)
              observer = Sql.active or return super
              result = super
              observer.returned(result)
              result
            end
          end

          def initialize(places)
            super
            @shapes = {}
            @names = {}
          end

          def start(env)
            super
            subscribe("sql.active_record", Listener.new { |payload, us| Clock.aside { add(payload, us) } })
          end

          # Looks for tables that are read whole, when all of the request has ended.
          def stop(env)
            super
            @shapes.each { |shape, entry| entry.scan = SqlScan.find(entry.example, entry.pool) if shape.match?(/\bWHERE\b|\bJOIN\b/i) }
          end

          # @api private A query has returned; its event came before.
          def returned(result)
            entry = Thread.current[:paceline_last_query] or return
            Thread.current[:paceline_last_query] = nil
            entry.rows += result.length if result.respond_to?(:length)
          end

          # `count` has those that the query cache has answered, too; `distinct` counts different values.
          def to_h
            longest = @shapes.sort_by { |_, entry| -entry.us }.first(LIMIT)
            longest.map do |shape, entry|
              { shape: shape, name: entry.name, count: entry.count, distinct: entry.values.size, us: entry.us.round, rows: entry.rows,
                cached: entry.cached, at: entry.places.top, scan: entry.scan }
            end
          end

          private

          def install
            return unless defined?(::ActiveRecord::ConnectionAdapters::AbstractAdapter)

            self.class.hook(::ActiveRecord::ConnectionAdapters::AbstractAdapter, Rows)
          end

          def add(payload, us)
            Thread.current[:paceline_last_query] = nil
            return if APART.include?(payload[:name])

            entry = entry_of(payload)
            entry.count += 1
            entry.cached += 1 if payload[:cached]
            entry.us += us
            entry.values[[payload[:sql], values_of(payload)].hash] = true
            entry.places.add(@places.here)
            return entry.rows += payload[:row_count] if payload[:row_count]

            Thread.current[:paceline_last_query] = entry
          end

          def entry_of(payload)
            sql = payload[:sql].to_s
            adapter = adapter_of(payload[:connection])
            shape = @names[sql] ||= SqlShape.of(sql, adapter)
            @shapes[shape] ||= Shape.new(payload[:name].to_s, 0, {}, 0.0, 0, 0, Tally.new, sql, (payload[:connection].pool if adapter == "SQLite"))
          end

          def adapter_of(connection)
            connection.respond_to?(:adapter_name) ? connection.adapter_name.to_s : ""
          end

          # Of a cached query they are computed when they are wanted.
          def values_of(payload)
            values = payload[:type_casted_binds]
            values.respond_to?(:call) ? values.call : values
          end
        end
      end
    end
  end
end
