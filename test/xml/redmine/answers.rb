# frozen_string_literal: true

# Asks a Redmine, inside its own process, for its feeds and API responses and writes them down.
#
#   ruby answers.rb DIR DATABASE fill                 fills DATABASE (SQLite, a copy of DIR's) with fill.rb
#   ruby answers.rb DIR DATABASE WAY OUT              writes {asked:, templates:, about:} to OUT
#
# WAY says who writes XML: `builder` as it comes; `configured` is config.paceline.xml = true; `replaced` is Paceline::XML.replace_builder! before
# Redmine's own classes are loaded, `late` after that. The clock stands still.
directory, database, way, out = ARGV
ENV["RAILS_ENV"] = "production"
ENV["BUNDLE_GEMFILE"] = File.join(directory, "Gemfile")
ENV["DATABASE_URL"] = "sqlite3:#{database}"
ENV["SCHEMA"] = File::NULL
%w[RUBYOPT RUBYLIB].each { |name| ENV.delete(name) }
GEM = File.expand_path("../../../gem/lib", __dir__)

Dir.chdir(directory)
require File.join(directory, "config/application")
$LOAD_PATH.unshift(GEM)
if way == "configured"
  require "paceline"
  Rails.application.config.paceline.xml = true
elsif way == "replaced"
  require "paceline/xml"
  Paceline::XML.replace_builder!
end
require File.join(directory, "config/environment")
if way == "late"
  require "paceline/xml"
  Paceline::XML.replace_builder!
end

# No mail: jobs would be done by threads beside, which fight for the database.
ActiveJob::Base.queue_adapter = :test
ActionMailer::Base.perform_deliveries = false

if way == "fill"
  require_relative "fill"
  Fill.new(File.dirname(database)).run
  exit
end

require "active_support/testing/time_helpers"
require "json"
require_relative "questions"
include ActiveSupport::Testing::TimeHelpers
travel_to Time.utc(2026, 11, 20, 9, 30)
Attachment.storage_path = File.join(File.dirname(database), "files")

# Those of ours that write XML, and Redmine's own JSON beside them.
templates = []
ActiveSupport::Notifications.subscribe("!render_template.action_view") { |*, payload| templates << payload[:identifier].delete_prefix("#{directory}/") }

key = JSON.parse(File.read(File.join(directory, "account.json")))["api_key"]
browser = ActionDispatch::Integration::Session.new(Rails.application)
browser.host! "redmine.test"
asked = Questions.all.to_h do |name, (method, path, body, type)|
  headers = { "X-Redmine-API-Key" => key }
  headers["CONTENT_TYPE"] = type if type
  browser.process(method, path, headers: headers, params: body)
  [name, { status: browser.response.status, type: browser.response.content_type, body: browser.response.body.b }]
end

about = { version: Redmine::VERSION.to_s, rails: Rails.version, superclass: Redmine::Views::Builders::Xml.superclass.name, native: defined?(Paceline::Native) && !Paceline::Native.nil?,
          handler: ActionView::Template.handler_for_extension(:builder).then { |handler| handler.is_a?(Module) ? handler.name : handler.class.name } }
File.binwrite(out, Marshal.dump(asked: asked, templates: templates.uniq.grep(/\.(rsb|builder)\z/), about: about))
