require_relative "boot"

require "rails"
require "active_model/railtie"
require "active_record/railtie"
require "action_controller/railtie"
require "action_view/railtie"
require "action_cable/engine"

Bundler.require(*Rails.groups)

module BreweryGuide
  class Application < Rails::Application
    config.load_defaults 6.1

    # The same files serve Rails 6.1 and 7.2; a dump would be written in the newer one's words.
    config.active_record.dump_schema_after_migration = false

    # "X-Sendfile" or "X-Accel-Redirect": the server sends the label pictures, not Ruby.
    config.action_dispatch.x_sendfile_header = ENV["SENDFILE_HEADER"]

    $LOAD_PATH.unshift(root.join("lib").to_s)

    config.generators.system_tests = nil
  end
end
