# frozen_string_literal: true

require_relative "observer"

# Mails that ActionMailer renders and delivers within the request. What is left to a job is not counted.
module Paceline
  module Server
    module Shadow
      class Evidence
        class Mail < Observer
          def initialize(places)
            super
            @count = 0
            @us = 0.0
            @tally = Tally.new
          end

          def start(env)
            super
            return unless defined?(::ActionMailer)

            subscribe("process.action_mailer", Listener.new { |_, us| @us += us })
            subscribe("deliver.action_mailer", Listener.new { |_, us| deliver(us) })
          end

          # `us`: for rendering them, and for what the delivery takes in a shadow, which sends none.
          def to_h
            { count: @count, us: @us.round, at: @tally.top } if @count.positive?
          end

          private

          def deliver(us)
            @count += 1
            @us += us
            @tally.add(@places.here)
          end
        end
      end
    end
  end
end
