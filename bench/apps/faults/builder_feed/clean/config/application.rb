# What the Rails applications of `bin/bench doctor` share: a small bookshop without a fault. Each application adds its own files and its own fault. Runs on
# Rails 6.1 to 7.2, without Bundler; PACELINE_GEM_DIR names the gem's folder.
$LOAD_PATH.unshift(File.join(ENV.fetch("PACELINE_GEM_DIR"), "lib"))
require "logger"
require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "action_view/railtie"
require "action_mailer/railtie"
require "active_job/railtie"
require "paceline"

module Shop
  class Application < Rails::Application
    config.root = File.expand_path("..", __dir__)
    config.load_defaults 6.1
    config.secret_key_base = "0" * 64
    config.active_record.dump_schema_after_migration = false
    config.generators.system_tests = nil
    config.paceline.xml = true
  end
end
