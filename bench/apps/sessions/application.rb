# frozen_string_literal: true

# A small Rails application with a page that reads and changes the session: the sixth line of its cart and how often it was asked for. BENCH_SESSIONS
# says where sessions are: cookie, pstore, paceline, activerecord or redis; BENCH_FOLDER where their files are, BENCH_REDIS the server's socket.
require "rails"
require "action_controller/railtie"
require "action_view/railtie"
require "logger"
require_relative "../../pstore/session"
$LOAD_PATH.unshift(File.join(ENV.fetch("PACELINE_GEM_DIR", File.expand_path("../../../gem", __dir__)), "lib"))
require "paceline"
require_relative "pstore_store"

STORE = ENV.fetch("BENCH_SESSIONS", "cookie")
FOLDER = ENV.fetch("BENCH_FOLDER", "/tmp")
if STORE == "activerecord"
  $LOAD_PATH.unshift(File.expand_path("../../../tmp/bench/activerecord-session_store/lib", __dir__))
  require "active_record/railtie"
  require "activerecord/session_store"
  require_relative "../../pstore/sqlite_as_in_rails_7"
  ENV["DATABASE_URL"] = "sqlite3:#{FOLDER}/sessions.sqlite3?pool=5"
end

class SessionsApplication < Rails::Application
  config.root = __dir__
  config.load_defaults 6.1
  config.eager_load = true
  config.cache_classes = true
  config.consider_all_requests_local = false
  config.logger = ActiveSupport::Logger.new(IO::NULL)
  config.log_level = :warn
  config.secret_key_base = "0" * 64
  case STORE
  when "cookie" then config.session_store :cookie_store, key: "_visit"
  when "pstore" then config.session_store PStoreStore, key: "_visit", folder: FOLDER
  when "paceline" then config.session_store :paceline_store, key: "_visit", store: File.join(FOLDER, "sessions.paceline")
  when "redis" then config.session_store :paceline_store, key: "_visit", store: "unix://#{ENV.fetch("BENCH_REDIS")}"
  when "activerecord" then config.session_store :active_record_store, key: "_visit"
  else raise "BENCH_SESSIONS=#{STORE}?"
  end

  routes.append { get "/visit", to: "visits#show" }
end

class VisitsController < ActionController::Base
  def show
    PStoreSession.make(1).each { |key, value| session[key] ||= value } unless session["cart"]
    @count = session["counter"] += 1
    @cart = session["cart"]
  end

  PStoreSession = Bench::PStoreSession
end
