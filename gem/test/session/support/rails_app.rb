# frozen_string_literal: true

# A Rails application whose sessions are ours, in STORE (relative to FOLDER, its root); SERIALIZER, EXPIRE_AFTER and IDLE if they are set.
require "rails"
require "action_controller/railtie"
require "paceline"

class SessionApp < Rails::Application
  config.root = ENV.fetch("FOLDER")
  config.eager_load = false
  config.consider_all_requests_local = true
  config.action_dispatch.show_exceptions = Rails::VERSION::STRING < "7.1" ? false : :none if ENV["RAISE"]
  config.hosts.clear if config.respond_to?(:hosts) && config.hosts
  config.secret_key_base = "0" * 128
  config.logger = Logger.new(File.join(ENV.fetch("FOLDER"), "rails.log"))
  times = { expire_after: ENV["EXPIRE_AFTER"], idle: ENV["IDLE"], max_size: ENV["MAX_SIZE"] }.compact.transform_values { |value| Integer(value) }
  times[:serializer] = ENV["SERIALIZER"].to_sym if ENV["SERIALIZER"]
  config.session_store :paceline_store, key: "_shop", store: ENV.fetch("STORE"), **times
end

class SessionController < ActionController::Base
  protect_from_forgery with: :exception

  # The account of a shop.
  def count
    session[:count] = (session[:count] || 0) + 1
    render plain: session[:count]
  end

  def show = render(plain: session.to_hash.except("_csrf_token").sort.inspect)
  def id = render(plain: request.session.id.public_id)
  def nothing = head(:ok)
  def set = (session[params[:name]] = params[:value]) && head(:ok)
  def forget = session.delete(params[:name]) && head(:ok)
  def large = (session[:report] = "x" * Integer(params[:bytes])) && head(:ok)
  def odd = (session[:odd] = Time.at(0)) && head(:ok)
  def token = render(plain: form_authenticity_token)
  def post = head(:ok)

  def login
    reset_session
    session[:user] = params[:user]
    head :ok
  end

  def logout
    reset_session
    head :ok
  end

  def reset
    session[:bar]
    reset_session
    session[:bar] = "baz"
    head :ok
  end

  def renew
    request.session_options[:renew] = true
    session[:renewed] = true
    head :ok
  end

  def flash_notice
    flash[:notice] = "Prost"
    head :ok
  end

  def flashed = render(plain: flash[:notice].inspect)

  # Has read the session, and waits until it may change it.
  def slow
    before = session[:count]
    SLOW.call if defined?(SLOW)
    session[:slow] = before || 0
    head :ok
  end

  def whole
    session[:whole] = SessionThing.new("Kölsch")
    head :ok
  end

  def thing = render(plain: session[:whole].name)
end

SessionApp.initialize!
SessionApp.routes.draw do
  %w[count show id nothing set forget large odd token login logout reset renew flash_notice flashed slow whole thing].each { |action| get action, to: "session##{action}" }
  post "post", to: "session#post"
end
