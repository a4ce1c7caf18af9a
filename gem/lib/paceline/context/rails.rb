# frozen_string_literal: true

# What the context needs of Rails: jobs, Action Cable, streaming actions; log tags and SQL comments if they are asked for. Loads no framework that the
# application has not loaded.
module Paceline
  class Context
    class << self
      # Rails' frameworks, as each is loaded.
      def extend_rails
        RailsParts.extend_frameworks
      end

      # Log tags and SQL comments, as the application's settings ask for them. Before Active Record's QueryLogs are configured.
      def tell_of(app)
        settings = app.config.paceline
        RailsParts.tag_log(settings.log_tags) if settings.log_tags
        RailsParts.comment_sql(app, settings.sql_comments) if settings.sql_comments && defined?(::ActiveRecord)
      end
    end

    module RailsParts
      class << self
        def extend_frameworks
          ActiveSupport.on_load(:active_job) do
            require_relative "jobs"
            prepend Jobs
          end
          ActiveSupport.on_load(:action_cable) do
            require_relative "connections"
            Connections.install
          end
          ActiveSupport.on_load(:action_controller) do
            require_relative "live"
            ::ActionController::Live.prepend(LiveActions)
          end
        end

        # `asked`: see Labels.names.
        def comment_sql(app, asked)
          require_relative "sql_comments"
          names = Labels.names(asked)
          look_again_in_controllers
          SqlComments.names = names
          if ::ActiveRecord.respond_to?(:query_transformers)
            SqlComments.add_to_query_logs(app.config.active_record, names)
          else
            ActiveSupport.on_load(:active_record) { SqlComments.install }
          end
        end

        # `asked`: see Labels.names.
        def tag_log(asked)
          require_relative "log_tags"
          look_again_in_controllers
          logger = ::Rails.logger or return
          # Rails 7.1 and newer have one logger that writes to several.
          loggers = logger.respond_to?(:broadcasts) ? logger.broadcasts : [logger]
          loggers.each { |each| LogTags.install(each, asked) }
        end

        private

        # Something may be logged before there is a session to find the user in.
        def look_again_in_controllers
          @subscription ||= ActiveSupport::Notifications.subscribe("start_processing.action_controller") { Slot.scope&.look_again }
        end
      end
    end
    private_constant :RailsParts
  end
end
