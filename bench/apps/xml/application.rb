# frozen_string_literal: true

# A small Rails application whose responses are the documents: /documents/small.xml, feed.xml, board.xml. With BENCH_XML=paceline its
# templates are compiled by Paceline, otherwise they are Builder's.
require "rails"
require "action_controller/railtie"
require "logger"
require_relative "documents"
$LOAD_PATH.unshift(File.join(ENV.fetch("PACELINE_GEM_DIR", File.expand_path("../../../gem", __dir__)), "lib"))
require "paceline"

class XmlApplication < Rails::Application
  config.root = __dir__
  config.load_defaults 6.1
  config.eager_load = true
  config.cache_classes = true
  config.consider_all_requests_local = false
  config.logger = Logger.new(IO::NULL)
  config.log_level = :warn
  config.secret_key_base = "0" * 64
  config.paceline.xml = true if ENV["BENCH_XML"] == "paceline"

  routes.append { get "/documents/:name", to: "documents#show", defaults: { format: "xml" } }
end

class DocumentsController < ActionController::Base
  def show
    name = params[:name]
    return head(:not_found) unless Documents::NAMES.include?(name)

    Documents.assigns(name).each { |variable, value| instance_variable_set("@#{variable}", value) }
    render action: name, formats: [:xml]
  end
end
