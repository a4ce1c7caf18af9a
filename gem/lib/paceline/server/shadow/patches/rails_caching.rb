# frozen_string_literal: true

# Settings of Rails that are on in production unless somebody turned them off. Each as Rails has it where it is on.
module Paceline
  module Server
    module Shadow
      module Patches
        # `config.action_controller.perform_caching = true`: what stands in `cache` blocks of views is kept.
        module PerformCaching
          BASES = %w[ActionController::Base ActionMailer::Base].freeze
          private_constant :BASES

          # Nil: there are no controllers of Rails'.
          def self.on?
            ::ActionController::Base.perform_caching ? true : false if defined?(::ActionController::Base)
          end

          def self.apply(_params, _shadow)
            raise Inapplicable, "Rails keeps fragments already" unless on? == false

            BASES.each { |name| Object.const_get(name).perform_caching = true if Object.const_defined?(name) }
          end
        end

        # `config.action_view.cache_template_loading = true`: templates are looked for once, and their files are not asked for changes.
        module TemplateCaching
          # Before the methods that look for changed files: Rails 6.1, and 7.0 and newer.
          module NoChanges
            def before(*) = nil
            def execute(*) = nil
          end
          private_constant :NoChanges

          # By Rails' configuration; what it stands for is set when the first view is rendered. Nil: it goes by another setting, or there are no views.
          def self.on?
            ::Rails.application.config.action_view.cache_template_loading if defined?(::ActionView::Resolver)
          end

          def self.apply(_params, _shadow)
            raise Inapplicable, "Rails keeps templates already" unless defined?(::ActionView::Base) && !::ActionView::Base.cache_template_loading

            ::ActionView::Base.cache_template_loading = true
            return unless defined?(::ActionView::CacheExpiry)

            %i[Executor ViewReloader].each { |name| ::ActionView::CacheExpiry.const_get(name).prepend(NoChanges) if ::ActionView::CacheExpiry.const_defined?(name) }
          end
        end
      end
    end
  end
end
