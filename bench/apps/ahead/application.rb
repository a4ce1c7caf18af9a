# frozen_string_literal: true

# A small Rails application with one page, /page, that can be computed at three times. BENCH_AHEAD: `controller` renders it for each request, `middleware` once at
# the start, and a Rack middleware before Rails gives it out; with `front` the controller says that it may be kept for an hour.
require "rails"
require "action_controller/railtie"
require "action_view/railtie"
require "logger"
require_relative "../xml/documents"

AHEAD = ENV.fetch("BENCH_AHEAD", "controller")

# As Rails Metal was: it answers before the router is asked.
class AheadOfRails
  PATH = "/page"

  class << self
    attr_accessor :page
  end

  def initialize(app)
    @app = app
  end

  def call(env)
    return @app.call(env) unless env["PATH_INFO"] == PATH

    page = self.class.page
    [200, { "content-type" => "text/html; charset=utf-8", "content-length" => page.bytesize.to_s }, [page]]
  end
end

class AheadApplication < Rails::Application
  config.root = __dir__
  config.load_defaults 6.1
  config.eager_load = true
  config.cache_classes = true
  config.consider_all_requests_local = false
  config.logger = Logger.new(IO::NULL)
  config.log_level = :warn
  config.secret_key_base = "0" * 64
  config.middleware.insert_before(0, AheadOfRails) if AHEAD == "middleware"

  routes.append { get AheadOfRails::PATH, to: "pages#show" }
end

class PagesController < ActionController::Base
  def show
    expires_in 1.hour, public: true if AHEAD == "front"
    render :show, layout: false, locals: { feed: Documents.feed }
  end
end
