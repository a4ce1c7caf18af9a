# frozen_string_literal: true

# For `size: 256.megabytes` of the cache store: Rails 7.2 alone does not load it before it reads an environment's file.
require "active_support/core_ext/numeric/bytes"

require_relative "rails/default_server"

# What Rails gets of the gem: the context of each request (Paceline.current) with its settings `config.paceline.context`, `sql_comments` and `log_tags`, the
# view helper esi_include, the session store :paceline_store by its name, `bin/rails paceline:check`, Paceline as the server of `bin/rails server`, the
# announcement of what consoles, jobs and tasks write where the server has an automatic page cache (`config.paceline.announce`) and, with
# `config.paceline.xml = true`, paceline/xml/rails; with `config.paceline.front = true`, less middleware. Changes nothing else.
module Paceline
  class Railtie < ::Rails::Railtie
    config.paceline = ActiveSupport::OrderedOptions.new
    config.paceline.xml = false
    config.paceline.context = true
    config.paceline.sql_comments = false
    config.paceline.log_tags = false
    config.paceline.announce = true
    config.paceline.front = false

    rake_tasks { load File.expand_path("rails/tasks.rb", __dir__) }

    initializer "paceline.xml" do |app|
      require_relative "xml/rails" if app.config.paceline.xml
    end

    initializer "paceline.context" do |app|
      if app.config.paceline.context
        require_relative "context/rails"
        app.middleware.insert_before 0, Paceline::Context
        Paceline::Context.extend_rails
      end
    end

    # The application's own initializers have said by then what they want; those of Active Record have not looked yet.
    initializer "paceline.context.log", before: "active_record.query_log_tags_config" do |app|
      config.after_initialize do
        Paceline::Context.tell_of(app) if app.config.paceline.context
      end
    end

    # Whatever loads the application and is no process of the server's own: a console, a runner, a task, a job queue, another server.
    config.after_initialize do |app|
      if app.config.paceline.announce
        require_relative "announcing"
        Paceline::Announcing.begin_in(app.root.to_s, environment: ::Rails.env)
      end
    end

    # All other initializers have said by then what middleware they want.
    initializer "paceline.front", before: :build_middleware_stack do |app|
      if app.config.paceline.front && defined?(Server::AppLoader) && Server::AppLoader.loads?
        require_relative "rails/front_stack"
        Paceline::FrontStack.install(app, served: Server::AppLoader.served_folder)
      end
    end

    initializer "paceline.audit" do |app|
      app.config.to_prepare { Paceline::Audit.attach unless Paceline.autoload?(:Audit) }
    end

    initializer "paceline.session" do
      require "action_dispatch"
      ActionDispatch::Session.autoload :PacelineStore, "action_dispatch/middleware/session/paceline_store"
    end

    initializer "paceline.esi" do
      ActiveSupport.on_load(:action_view) { include Paceline::ESI::Helper }
    end
  end
end
