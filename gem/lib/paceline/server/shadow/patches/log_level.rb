# frozen_string_literal: true

# Another level for the log, as `config.log_level` gives it.
module Paceline
  module Server
    module Shadow
      module Patches
        module LogLevel
          LEVELS = %w[debug info warn error fatal unknown].freeze
          # Parts of Rails that may have loggers of their own.
          OWNERS = %w[ActiveRecord::Base ActionController::Base ActionView::Base ActionMailer::Base ActiveJob::Base ActiveStorage ActionCable].freeze
          private_constant :LEVELS, :OWNERS

          # `level`: as "info".
          def self.apply(params, _shadow)
            level = LEVELS.index(params["level"].to_s.downcase) or raise Inapplicable, "#{params["level"].inspect} is no level of a log"
            lower = loggers.select { |logger| logger.level.to_i < level }
            raise Inapplicable, "the log's level is #{LEVELS[level]} or higher already" if lower.empty?

            lower.each { |logger| logger.level = level }
          end

          # Rails'; without Rails, all that there are.
          def self.loggers
            rails = defined?(::Rails) && ::Rails.respond_to?(:logger) && ::Rails.logger
            return ObjectSpace.each_object(::Logger).to_a if !rails && defined?(::Logger)

            [rails, *OWNERS.map { |name| logger_of(name) }].select { |logger| logger.respond_to?(:level=) }.uniq
          end

          def self.logger_of(name)
            owner = Object.const_get(name) if Object.const_defined?(name)
            owner.logger if owner.respond_to?(:logger)
          rescue NameError, LoadError # a part that is not loaded can't be
            nil
          end
          private_class_method :loggers, :logger_of
        end
      end
    end
  end
end
