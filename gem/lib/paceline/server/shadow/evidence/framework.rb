# frozen_string_literal: true

require_relative "observer"

# In which framework a request was answered, whose words advice is written in. What a bundle has, and what passes a request on, says nothing of that.
module Paceline
  module Server
    module Shadow
      class Evidence
        class Framework < Observer
          # Before ActionController::Metal.
          module Rails
            def dispatch(*)
              Framework.active&.answered("rails")
              super
            end
          end

          # Before Sinatra::Base. An application may be a middleware, too.
          module Sinatra
            def call!(*)
              @paceline_passed_on = false
              super.tap { Framework.active&.answered("sinatra") unless @paceline_passed_on }
            end

            def forward
              @paceline_passed_on = true
              super
            end
          end

          # @api private
          def answered(name)
            @name = name
          end

          # "rails", "sinatra", or "rack" for all others.
          def to_h
            @name || "rack"
          end

          private

          def install
            self.class.hook(::ActionController::Metal, Rails) if defined?(::ActionController::Metal)
            self.class.hook(::Sinatra::Base, Sinatra) if defined?(::Sinatra::Base)
          end
        end
      end
    end
  end
end
