# frozen_string_literal: true

require_relative "associations"
require_relative "observer"
require_relative "postgresql_scan"
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
          # Who is asked whether a table is read whole, by the name of the adapter.
          SCANS = { "SQLite" => SqlScan, "PostgreSQL" => PostgresqlScan, "PostGIS" => PostgresqlScan }.freeze
          # Microseconds that the slowest query of a shape takes, where what there is of indexes could be better.
          SLOW_US = 1_000
          private_constant :APART, :LIMIT, :SCANS, :SLOW_US

          # Queries of one shape. `values`: those that were seen; `example`: the SQL text of the one that took longest, with its values (`binds`), its time
          # and the pool of its connection.
          Shape = Struct.new(:name, :count, :values, :us, :rows, :cached, :places, :scans, :pool, :example, :binds, :longest, :scan, :association)
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
            longest.each do |shape, entry|
              next unless entry.scans && entry.us >= entry.scans::MIN_US && shape.match?(/\bWHERE\b|\bJOIN\b|\bORDER BY\b/i)

              scan = entry.scans.find(entry.example, entry.binds, entry.pool)
              entry.scan = scan unless scan&.key?(:reads) && entry.longest < SLOW_US
            end
            @shapes.each_value { |entry| entry.binds = nil }
          end

          # @api private A query has returned; its event came before.
          def returned(result)
            entry = Thread.current[:paceline_last_query] or return
            Thread.current[:paceline_last_query] = nil
            entry.rows += result.length if result.respond_to?(:length)
          end

          # `association`: `["Beer", "brewery"]`, of a query by which Rails loads one. `count` has those that the query cache has answered, too; `distinct` counts different values.
          def to_h
            longest.map do |shape, entry|
              { shape: shape, name: entry.name, count: entry.count, distinct: entry.values.size, us: entry.us.round, rows: entry.rows,
                cached: entry.cached, at: entry.places.top, scan: entry.scan, association: entry.association }
            end
          end

          private

          def longest
            @shapes.sort_by { |_, entry| -entry.us }.first(LIMIT)
          end

          def install
            return unless defined?(::ActiveRecord::ConnectionAdapters::AbstractAdapter)

            self.class.hook(::ActiveRecord::ConnectionAdapters::AbstractAdapter, Rows)
            self.class.hook(::ActiveRecord::Associations::Association, Associations::Targets)
          end

          def add(payload, us)
            Thread.current[:paceline_last_query] = nil
            return if APART.include?(payload[:name])

            entry = entry_of(payload)
            entry.count += 1
            entry.cached += 1 if payload[:cached]
            entry.association ||= Associations.current
            entry.us += us
            entry.example, entry.binds, entry.longest = payload[:sql].to_s, payload[:binds], us if us > entry.longest
            entry.values[[payload[:sql], values_of(payload)].hash] = true
            entry.places.add(@places.here)
            return entry.rows += payload[:row_count] if payload[:row_count]

            Thread.current[:paceline_last_query] = entry
          end

          def entry_of(payload)
            sql = payload[:sql].to_s
            adapter = adapter_of(payload[:connection])
            shape = @names[sql] ||= SqlShape.of(sql, adapter)
            scans = SCANS[adapter]
            @shapes[shape] ||= Shape.new(payload[:name].to_s, 0, {}, 0.0, 0, 0, Tally.new, scans, (payload[:connection].pool if scans), sql, nil, -1.0)
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
