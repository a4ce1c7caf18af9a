# frozen_string_literal: true

# For `size: 256.megabytes` of the cache store: Rails 7.2 alone does not load it before it reads an environment's file.
require "active_support/core_ext/numeric/bytes"

require_relative "rails/default_server"

# What Rails gets of the gem: the view helper esi_include, the session store :paceline_store by its name, `bin/rails paceline:check`, Paceline as the
# server of `bin/rails server` and, with `config.paceline.xml = true`, paceline/xml/rails. Changes nothing else.
module Paceline
  class Railtie < ::Rails::Railtie
    config.paceline = ActiveSupport::OrderedOptions.new
    config.paceline.xml = false

    rake_tasks { load File.expand_path("rails/tasks.rb", __dir__) }

    initializer "paceline.xml" do |app|
      require_relative "xml/rails" if app.config.paceline.xml
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
