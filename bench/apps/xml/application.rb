# frozen_string_literal: true

# A small Rails application whose responses are the documents: /documents/small.xml, feed.xml, board.xml. BENCH_XML says who writes them: Builder
# (the default), `paceline` with Paceline's builder in the place of Builder's, `nokogiri`, or `ox`. /parse reads the XML
# that is sent to it by the backend of XmlMini that BENCH_XML_MINI names.
require "rails"
require "action_controller/railtie"
require "logger"
require_relative "documents"
$LOAD_PATH.unshift(File.join(ENV.fetch("PACELINE_GEM_DIR", File.expand_path("../../../gem", __dir__)), "lib"))
require "paceline"

WRITER = ENV.fetch("BENCH_XML", "builder")

# Renders a template by a writer that has its own version of each document.
class WriterHandler
  def initialize(writer)
    @works = Documents::NAMES.to_h { |name| [name, writer.work(name)] }
  end

  def write(name) = @works.fetch(name).call
  def call(template, _source = nil) = "WRITER_HANDLER.write(#{File.basename(template.virtual_path).inspect})"
end

case WRITER
when "nokogiri", "ox"
  require_relative "../../xml/#{WRITER}"
  WRITER_HANDLER = WriterHandler.new(WRITER == "ox" ? Bench::XmlOx.new : Bench::XmlNokogiri.new)
  ActiveSupport.on_load(:action_view) { ActionView::Template.register_template_handler(:builder, WRITER_HANDLER) }
end

class XmlApplication < Rails::Application
  config.root = __dir__
  config.load_defaults 6.1
  config.eager_load = true
  config.cache_classes = true
  config.consider_all_requests_local = false
  config.logger = Logger.new(IO::NULL)
  config.log_level = :warn
  config.secret_key_base = "0" * 64
  config.paceline.xml = true if WRITER == "paceline"
  # It would read what is sent as a form.
  config.middleware.delete(Rack::MethodOverride)

  routes.append do
    get "/documents/:name", to: "documents#show", defaults: { format: "xml" }
    match "/parse", via: %i[get post], to: lambda { |env|
      sent = env["rack.input"].read
      [200, { "content-type" => "text/plain" }, [sent.empty? ? "nothing\n" : "#{Hash.from_xml(sent)["beers"].size}\n"]]
    }
  end
end

ActiveSupport::XmlMini.backend = ENV["BENCH_XML_MINI"] if ENV["BENCH_XML_MINI"]

class DocumentsController < ActionController::Base
  def show
    name = params[:name]
    return head(:not_found) unless Documents::NAMES.include?(name)

    Documents.assigns(name).each { |variable, value| instance_variable_set("@#{variable}", value) }
    render action: name, formats: [:xml]
  end
end
