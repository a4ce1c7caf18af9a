# frozen_string_literal: true

# Renders views with Rails and prints what came of each, as JSON: `ruby rails_views.rb stock|ours`. Run by rails_views_test.rb, in a
# process of its own, since Builder can't be put back.
ENV["RAILS_ENV"] = "test"
require "logger"
require "action_controller"
require "action_view"
require "active_model"
require "active_support/all"
require "json"
require "tmpdir"
# Before ActionView is used for the first time, and so before its hook runs, or after it.
ActionView::Base if ARGV[1] == "late"
require "paceline/xml/rails" if ARGV[0] == "ours"

Item = Struct.new(:id, :title, :created_at, :updated_at) do
  extend ActiveModel::Naming
  include ActiveModel::Conversion

  def persisted? = true
  def to_param = id.to_s
  def cache_key = "items/#{id}"
  def to_partial_path = "pages/item"
end

class PagesController < ActionController::Base
  FILES = File.read(File.join(__dir__, "rails_views.txt")).split(/^=== (.*)\n/).drop(1).each_slice(2).to_h
  ROOT = Dir.mktmpdir
  FILES.each do |name, source|
    file = File.join(ROOT, name)
    FileUtils.mkdir_p(File.dirname(file))
    File.write(file, source)
  end

  prepend_view_path ROOT
  self.cache_store = ActiveSupport::Cache::MemoryStore.new
  self.perform_caching = true
  self.logger = Logger.new(nil)
  helper_method(def shout(text) = text.upcase)
  helper do
    def polymorphic_url(item, *) = "http://test.host/items/#{item.id}"
    def emphasised(xml, text)
      xml.em { xml << text }
      xml.mark do |inner|
        inner.text! text
        yield inner if block_given?
      end
    end
  end

  def page
    time = Time.utc(2024, 2, 29, 12)
    @items = (1..3).map { |id| Item.new(id, "Item <#{id}> & more \u00e9", time, time + id) }
    options = { formats: [:xml], **request.env["pages.options"] }
    request.variant = options.delete(:variant).to_sym if options[:variant]
    @title = "A <title>"
    render(**options)
  end

  # What comes of the template or options of this name.
  def self.outcome(options)
    env = Rack::MockRequest.env_for("http://test.host/pages/page.xml", "pages.options" => options)
    env["action_dispatch.request.path_parameters"] = { controller: "pages", action: "page", format: "xml" }
    status, headers, body = action(:page).call(env)
    text = +""
    body.each { |part| text << part }
    { status: status, type: headers["Content-Type"] || headers["content-type"], text: text }
  rescue ActionView::Template::Error => e
    { error: e.cause.class, message: e.message.lines.first.gsub(/0x\h+/, "0x").gsub(ROOT, ""), line: e.line_number, extract: e.respond_to?(:source_extract) && e.source_extract,
      file: e.file_name && File.basename(e.file_name) }
  rescue SyntaxError => e
    { syntax: e.class, file: e.message[/\S+\.builder/] }
  end
end

SCENARIOS = PagesController::FILES.keys.grep(%r{\Apages/[a-z]}).to_h { |file| [file[/\w+(?=\.)/], { template: file[/\A[^.]+/] }] }
SCENARIOS.reject! { |name, _| name.start_with?("strict") && ActionView::VERSION::MAJOR < 7 }
SCENARIOS.merge!(
  "layout" => { template: "pages/plain", layout: "layouts/frame" },
  "inline" => { inline: "xml.a 'b', c: @title\nxml.d { |x| x.e shout(@title) }", type: :builder, formats: [:xml] },
  "streamed" => { template: "pages/plain", layout: "layouts/frame", stream: true },
  "variant" => { template: "pages/plain", variant: "phone" },
  "locals" => { template: "pages/locals", locals: { count: 4, title: "own", xml: 5 } },
  "cached_again" => { template: "pages/cached" },
  "partial_alone" => { partial: "pages/item", collection: [Item.new(7, "seven")], as: :item }
)

results = SCENARIOS.to_h { |name, options| [name, PagesController.outcome(options)] }
ActionView::Template.frozen_string_literal = true if ActionView::Template.respond_to?(:frozen_string_literal=)
ActionView::LookupContext::DetailsKey.clear
results.merge!(%w[plain fails_in_value nested].to_h { |name| ["#{name}_frozen", PagesController.outcome(SCENARIOS[name])] })
# Outside of views.
results["outside"] = { text: [{ a: 1, "b" => nil, c: [1, "<"], d: { e: :f } }].to_xml + { g: Time.utc(2024), h: 1.5 }.to_xml(indent: 0) }
results["handler"] = { name: ActionView::Template.handler_for_extension("builder").class, builder: Builder::XmlMarkup }
puts JSON.generate(results)
FileUtils.rm_rf(PagesController::ROOT)
