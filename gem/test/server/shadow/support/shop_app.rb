# frozen_string_literal: true

# A small Rails application with one fault of each kind, for the tests of evidence and patches. shop.rb copies it to the application's folder, so that its
# lines are the application's.
ENV["RAILS_ENV"] = "test"
require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "action_view/railtie"
require "action_mailer/railtie"
require "active_job/railtie"
require "builder"
require "net/http"
require "pstore"
require "socket"

VIEWS = {
  "layouts/shop.html.erb" => "<title><%= yield :title %></title><%= yield %>",
  "beers/index.html.erb" => "<% @beers.each do |beer| %>\n<%= render \"beers/row\", beer: beer %>\n<% end %>",
  "beers/_row.html.erb" => "<% content_for :title, beer.name.first %>\n<p><%= beer.name %> by <%= beer.brewery.name %></p>\n",
  "beers/feed.xml.builder" => "xml.instruct!\nxml.feed do\n  @beers.each { |beer| xml.entry(id: beer.id) { xml.title beer.name; xml.made beer.brewery_id } }\nend\n",
  "postman/hello.text.erb" => "Hello <%= @name %>"
}.freeze
VIEWS.each do |name, text|
  path = File.join(ROOT, "app/views", name)
  FileUtils.mkdir_p(File.dirname(path))
  File.write(path, text)
end

class SlowThing
  def initialize(app)
    @app = app
  end

  def call(env)
    # Slower than any other, compiled by YJIT too: Rails turns that on.
    100_000.times { |number| number.to_s }
    env["shop.pace"] = "slow"
    status, headers, body = @app.call(env)
    [status, headers.merge("X-Slow" => "yes"), body]
  end
end

class ShopApplication < Rails::Application
  config.root = ROOT
  config.load_defaults "#{Rails::VERSION::MAJOR}.#{Rails::VERSION::MINOR}"
  config.eager_load = false
  config.cache_classes = true
  config.secret_key_base = "x" * 64
  config.hosts.clear
  config.consider_all_requests_local = false
  config.logger = ActiveSupport::Logger.new(File.join(ROOT, "log/shop.log"))
  config.log_level = :debug
  config.action_mailer.delivery_method = :test
  config.active_job.queue_adapter = :test
  config.session_store :cookie_store, key: "_shop"
  config.middleware.use SlowThing
  config.cache_store = :memory_store
end

File.write(File.join(ROOT, "config/database.yml"), "test:\n  adapter: sqlite3\n  database: db/shop.sqlite3\n  pool: 5\n")
Rails.application.initialize!

ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table(:breweries, force: true) { |t| t.string :name }
  create_table(:beers, force: true) do |t|
    t.string :name
    t.string :style
    t.integer :brewery_id
    t.index :brewery_id
  end
  create_table(:notes, force: true) do |t|
    t.integer :beer_id
    t.string :text
  end
end

class Brewery < ActiveRecord::Base
end

class Beer < ActiveRecord::Base
  belongs_to :brewery
end

class Note < ActiveRecord::Base
end

ActiveRecord::Base.connection.execute("PRAGMA synchronous = OFF")
5.times { |number| Brewery.create!(name: "Brewery #{number}") }
Beer.insert_all(200.times.map { |number| { name: "Beer #{number}", style: "style #{number % 50}", brewery_id: number % 5 + 1 } })
Note.insert_all(20.times.map { |number| { beer_id: number, text: "good" } })

class Postman < ActionMailer::Base
  default from: "shop@example.test", to: "you@example.test"

  def hello
    @name = params ? params[:name] : "you"
    mail(subject: "Hello")
  end
end

# Another server, which keeps connections.
module Suppliers
  SERVER = TCPServer.new("127.0.0.1", 0)
  PORT = SERVER.addr[1]
  THREAD = Thread.new do
    loop do
      Thread.new(SERVER.accept) do |socket|
        while socket.gets
          nil while socket.gets.to_s.chomp != ""
          socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        end
      end
    end
  end
end

GUIDE = PStore.new(File.join(ROOT, "db/guide.pstore"))
GUIDE.transaction { |store| store[:text] = "x" * 1000 }

OTHER = ActiveSupport::Cache::NullStore.new

class ShopController < ActionController::Base
  layout "shop"

  def index
    @beers = Beer.order(:id).limit(20)
    render "beers/index"
  end

  def style
    render plain: Beer.where(style: params[:style]).pluck(:name).join(",")
  end

  def counted
    render plain: Beer.all.to_a.size.to_s
  end

  def joined
    render plain: Beer.joins("INNER JOIN notes ON notes.beer_id = beers.id").where(notes: { text: "good" }).count.to_s
  end

  def twice
    Beer.where(id: 1).to_a
    render plain: Beer.where(id: 1).first.name
  end

  def feed
    @beers = Beer.order(:id).limit(10)
    render "beers/feed", layout: false, formats: [:xml]
  end

  def prices
    list = %w[/a /b /a].map { |path| Net::HTTP.get_response("127.0.0.1", path, Suppliers::PORT).body }
    render plain: list.join
  end

  def order
    render plain: Hash.from_xml("<order><beer id='1'>Pils</beer></order>").inspect
  end

  def guide
    text = GUIDE.transaction(true) { |store| store[:text] }
    again = PStore.new(File.join(ROOT, "db/guide.pstore")).transaction { |store| store[:visits] = store[:visits].to_i + 1 }
    render plain: "#{text.size} #{again}"
  end

  def mail
    Postman.hello.deliver_now
    Postman.with(name: "us").hello.deliver_now
    render plain: "sent"
  end

  def visit
    session[:visits] = session[:visits].to_i + 1
    session[:bulk] = "x" * 500
    render plain: session[:visits].to_s
  end

  def data
    render json: Beer.limit(20)
  end

  def listed
    render plain: JSON.generate(Beer.limit(20).as_json)
  end

  def cached
    Rails.cache.write("here", "yes")
    OTHER.fetch("here") { "not counted" }
    found = Rails.cache.read_multi("here", "gone").values + [Rails.cache.read("gone"), Rails.cache.fetch("here") { "no" }]
    render plain: found.inspect
  end

  def pieces
    self.response_body = Enumerator.new { |body| 5.times { |number| body << "piece #{number} ü\n" } }
  end
end

Rails.application.routes.draw do
  %w[index style counted joined twice feed prices order guide mail visit data listed pieces cached].each { |name| get name, to: "shop##{name}" }
end
