# frozen_string_literal: true

# What `rails generate scaffold Person name town age:integer` makes, less what changes something: a list, a page and a form. It is written so that Rails 6.1 and 7.2 run
# the same files. BENCH_SESSIONS=off leaves out sessions, cookies and the protection from forgery. BENCH_DATABASES: a folder, in which each version of Rails has a database.
require "rails"
require "action_controller/railtie"
require "action_view/railtie"
require "active_record/railtie"
require "logger"

SESSIONS = ENV.fetch("BENCH_SESSIONS", "on") != "off"
DATABASES = ENV.fetch("BENCH_DATABASES", "/tmp")
ENV["DATABASE_URL"] = "sqlite3:#{DATABASES}/scaffold-#{Rails.version}.sqlite3?pool=#{ENV.fetch("RAILS_MAX_THREADS", 5)}"

class ScaffoldApplication < Rails::Application
  config.root = __dir__
  config.load_defaults 6.1
  config.eager_load = true
  config.cache_classes = true if Rails.version < "7.1"
  config.enable_reloading = false if Rails.version >= "7.1"
  config.consider_all_requests_local = false
  config.logger = ActiveSupport::Logger.new(IO::NULL)
  config.log_level = :info
  config.secret_key_base = "0" * 64
  config.active_record.maintain_test_schema = false
  config.action_controller.perform_caching = true
  config.action_controller.allow_forgery_protection = SESSIONS
  if SESSIONS
    config.session_store :cookie_store, key: "_scaffold"
  else
    config.session_store :disabled
    config.middleware.delete ActionDispatch::Flash
    config.middleware.delete ActionDispatch::Cookies
  end

  routes.append { resources :people, only: %i[index show new] }
end
