# frozen_string_literal: true

# A process that loads a Rails application in the current directory, and writes: what `bin/rails runner` is to one. Prints whether it announces, and what it wrote.
require "json"
require "rails"
require "active_record/railtie"
require "paceline"

FileUtils.mkdir_p("config")
File.write("config/database.yml", "#{Rails.env}:\n  adapter: sqlite3\n  database: #{Dir.pwd}/shop.sqlite3\n  pool: 5\n")

if ENV["OF_SERVER"]
  require "paceline/server/app_loader"
  Paceline::Server::AppLoader.loads!
end

class Shop < Rails::Application
  config.root = Dir.pwd
  config.load_defaults "#{Rails::VERSION::MAJOR}.#{Rails::VERSION::MINOR}"
  config.eager_load = false
  config.secret_key_base = "x" * 64
  config.logger = ActiveSupport::Logger.new(File.join(Dir.pwd, "rails.log"))
  config.paceline.announce = false if ENV["ANNOUNCE"] == "false"
end
Rails.application.initialize!
# Where it is there, the server's processes take it for theirs.
puts defined?(Paceline::AutoCache) ? "announces" : "off"

connection = ActiveRecord::Base.connection
connection.execute("CREATE TABLE beers (id INTEGER PRIMARY KEY, name TEXT)")
Beer = Class.new(ActiveRecord::Base)
Beer.create!(name: "Pils")
connection.raw_connection.execute("INSERT INTO beers (name) VALUES ('Porter')")
puts "#{Beer.where(name: "Pils").count} row"
