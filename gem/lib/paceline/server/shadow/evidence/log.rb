# frozen_string_literal: true

require_relative "observer"

# What is written to logs by Ruby's Logger and its subclasses. It keeps no line.
module Paceline
  module Server
    module Shadow
      class Evidence
        class Log < Observer
          NAMES = %w[debug info warn error fatal unknown].freeze
          private_constant :NAMES

          # Before Logger's own methods.
          module Hooks
            def add(severity, *, &block)
              observer = Log.active or return super
              observer.add { super }
            end

            private

            def format_message(severity, *)
              observer = Log.active or return super
              super.tap { |line| observer.line(severity, line) }
            end
          end

          # The lowest level of a logger that is written, as "debug".
          def self.level_name(logger)
            NAMES[logger.level] if logger.respond_to?(:level) && logger.level.is_a?(Integer)
          end

          def initialize(places)
            super
            @lines = @bytes = @debug_lines = 0
            @meter = Meter.new
          end

          # @api private
          def add(&block)
            @meter.run(&block)
          end

          # @api private
          def line(severity, text)
            @lines += 1
            @bytes += text.to_s.bytesize
            @debug_lines += 1 if severity == "DEBUG"
          end

          def to_h
            return if @lines.zero?

            { lines: @lines, bytes: @bytes, us: @meter.us.round, level: level, debug_lines: @debug_lines }
          end

          private

          def install
            self.class.hook(::Logger, Hooks) if defined?(::Logger)
            # They put most of Rails' lines together. Rails 6.1 and 7.0 call `finish`, later ones `call`.
            self.class.lead(::ActiveSupport::LogSubscriber, %i[finish call publish_event], :add) if defined?(::ActiveSupport::LogSubscriber)
          end

          # Rails', or else by what was written.
          def level
            logger = (::Rails.logger if defined?(::Rails) && ::Rails.respond_to?(:logger))
            (logger && Log.level_name(logger)) || (@debug_lines.positive? ? "debug" : "info")
          end
        end
      end
    end
  end
end
