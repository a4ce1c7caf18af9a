# frozen_string_literal: true

require_relative "observer"

# What the request reads from Rails.cache: entries that it asked for, and those that were there. Other caches of the application are not counted, unless
# they are of the same class.
module Paceline
  module Server
    module Shadow
      class Evidence
        class Cache < Observer
          def initialize(places)
            super
            @reads = 0
            @hits = 0
            @us = 0.0
            @tally = Tally.new
          end

          def start(env)
            super
            return unless defined?(::Rails) && ::Rails.respond_to?(:cache) && ::Rails.cache

            @store = ::Rails.cache.class.name
            subscribe("cache_read.active_support", Listener.new { |payload, us| read(payload, 1, payload[:hit] ? 1 : 0, us) })
            subscribe("cache_read_multi.active_support", Listener.new { |payload, us| read(payload, Array(payload[:key]).size, Array(payload[:hits]).size, us) })
          end

          def to_h
            { reads: @reads, hits: @hits, us: @us.round, at: @tally.top } if @reads.positive?
          end

          private

          # `us`: what it takes in a shadow, whose own writes are in its memory.
          def read(payload, keys, hits, us)
            return unless payload[:store] == @store

            @reads += keys
            @hits += hits
            @us += us
            @tally.add(@places.here)
          end
        end
      end
    end
  end
end
