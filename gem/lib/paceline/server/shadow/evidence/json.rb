# frozen_string_literal: true

require_relative "observer"

# JSON that is written by ActiveSupport or by the library json, and what records are made into for that (`as_json`). What it is read from is not counted.
module Paceline
  module Server
    module Shadow
      class Evidence
        class Json < Observer
          def initialize(places)
            super
            @bytes = 0
            @meter = Meter.new
            @tally = Tally.new
          end

          # @api private One call may lead to others, which belong to it.
          def write(&block)
            return yield if @within

            begin
              @within = true
              result = @meter.run(&block)
            ensure
              @within = false
            end
            written(result) unless result.is_a?(Hash)
            result
          end

          def to_h
            { us: @meter.us.round, bytes: @bytes, at: @tally.top } if @bytes.positive?
          end

          private

          def written(result)
            @bytes += result.bytesize if result.is_a?(String)
            @tally.add(@places.here)
          end

          def install
            self.class.lead(::ActiveRecord::Base, %i[as_json], :write) if defined?(::ActiveRecord::Base)
            self.class.lead(::ActiveSupport::JSON.singleton_class, %i[encode dump], :write) if defined?(::ActiveSupport::JSON)
            return unless defined?(::JSON)

            self.class.lead(::JSON.singleton_class, %i[generate pretty_generate dump], :write)
            [::Hash, ::Array].each { |type| self.class.lead(type, %i[to_json], :write) } unless defined?(::ActiveSupport::ToJsonWithActiveSupportEncoder)
          end
        end
      end
    end
  end
end
