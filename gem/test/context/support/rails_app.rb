# frozen_string_literal: true

# A Rails application with accounts and users, in FOLDER: SQLite, jobs, Action Cable, a streaming action. SETTINGS: config.paceline's, as JSON.
ENV["RAILS_ENV"] = "test"
require "json"
require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "active_job/railtie"
require "action_cable/engine"
require "sqlite3"
require "rack/test"
require "paceline"
require "rails/observers/activerecord/active_record" if ENV["OBSERVERS"]

FOLDER = ENV.fetch("FOLDER")
FileUtils.mkdir_p(%w[config log].map { |name| File.join(FOLDER, name) })
File.write(File.join(FOLDER, "config/database.yml"), "test:\n  adapter: sqlite3\n  database: #{FOLDER}/test.sqlite3\n  pool: 10\n")

class ContextApp < Rails::Application
  config.root = FOLDER
  config.load_defaults "#{Rails::VERSION::MAJOR}.#{Rails::VERSION::MINOR}"
  config.eager_load = false
  config.secret_key_base = "x" * 64
  config.hosts.clear
  config.consider_all_requests_local = false
  config.logger = ActiveSupport::TaggedLogging.new(ActiveSupport::Logger.new(File.join(FOLDER, "log/test.log")))
  config.log_level = :debug
  config.active_job.queue_adapter = :test
  config.session_store :cookie_store, key: "_shop"
  config.action_controller.allow_forgery_protection = false
  config.filter_parameters += [:pin]
  JSON.parse(ENV.fetch("SETTINGS", "{}")).each { |name, value| config.paceline[name] = value }
end

Rails.application.initialize!
Paceline::Context.user_from { |request| (id = request.session[:user_id]) && User.find_by(id: id) }

ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table(:users) { |t| t.string :name }
  create_table(:accounts) { |t| t.decimal :balance, precision: 10, scale: 2; t.string :note; t.string :pin; t.binary :scan; t.timestamps }
  create_table(:audits) { |t| t.string :user_name; t.integer :account_id; t.decimal :new_balance, precision: 10, scale: 2 }
end

class ApplicationRecord < ActiveRecord::Base
  self.abstract_class = true
end

class User < ApplicationRecord
end

class Account < ApplicationRecord
end

# What ran, and who it was for: {what => [user's name, request id, tenant]}.
SEEN = {}

def look(what)
  SEEN[what] = [Paceline.current.user&.name, Paceline.current.request_id, Paceline.current[:tenant]]
end

# Rails' own means, beside ours.
class Current < ActiveSupport::CurrentAttributes
  attribute :user
end

class LookJob < ActiveJob::Base
  retry_on(IOError, wait: 0) if ENV["RETRY"]

  def perform(what, fail: false)
    look(what)
    raise IOError, "again" if fail && executions == 1
  end
end

class ShopController < ActionController::Base
  before_action { Paceline.current[:tenant] = params[:tenant] }

  def login
    session[:user_id] = Integer(params[:id])
    look("after login")
    head :ok
  end

  def show
    Current.user = "current"
    look("action")
    raise "a clash" unless Current.user == "current" && Paceline.current.user != "current"

    render plain: SEEN["action"].inspect
  end

  def pay
    Account.find(params[:account]).update!(balance: params[:balance])
    head :ok
  end

  def enqueue
    LookJob.perform_later("job")
    head :ok
  end

  def fails = raise("oops")
end

class LiveController < ActionController::Base
  include ActionController::Live

  def show
    look("live")
    response.stream.write(Paceline.current.user&.name.to_s)
  ensure
    response.stream.close
  end
end

Rails.application.routes.draw do
  post "login", to: "shop#login"
  %w[show pay enqueue fails].each { |action| get action, to: "shop##{action}" }
  get "live", to: "live#show"
end

USERS = %w[ann bob].to_h { |name| [name, User.create!(name: name)] }

# A visitor with a session of its own.
class Shopper
  include Rack::Test::Methods

  def app = Rails.application

  def initialize(name)
    post "/login", { id: USERS.fetch(name).id }, { "HTTP_X_REQUEST_ID" => "login-#{name}" } if name
  end

  # The response to this GET.
  def ask(path, id: "ab12", **params)
    get path, params, { "HTTP_X_REQUEST_ID" => id }
    last_response
  end
end
