# frozen_string_literal: true

# A Rails application with posts and authors, in FOLDER, whose reads are recorded. RECORDED has what each request read.
ENV["RAILS_ENV"] = "test"
require "json"
require "rails"
require "active_support/time"
require "active_record/railtie"
require "action_controller/railtie"
require "action_view/railtie"
require "concurrent/promises"
require "sqlite3"
require "rack/test"
require "paceline"
require "paceline/auto_cache"
require "paceline/auto_cache/schema"

FOLDER = ENV.fetch("FOLDER")
FileUtils.mkdir_p(%w[config log].map { |name| File.join(FOLDER, name) })
File.write(File.join(FOLDER, "config/database.yml"), "test:\n  adapter: sqlite3\n  database: #{FOLDER}/test.sqlite3\n  pool: 5\n")
File.write(File.join(FOLDER, "notice.txt"), "closed on Mondays")

RECORDED = {}
Paceline::AutoCache.install(root: __dir__) { |recording, env, _, _| RECORDED[env["PATH_INFO"]] = recording }

class Shop < Rails::Application
  config.root = FOLDER
  config.load_defaults "#{Rails::VERSION::MAJOR}.#{Rails::VERSION::MINOR}"
  config.eager_load = false
  config.cache_classes = true
  config.secret_key_base = "x" * 64
  config.hosts.clear
  config.consider_all_requests_local = true
  config.logger = ActiveSupport::TaggedLogging.new(ActiveSupport::Logger.new(File.join(FOLDER, "log/test.log")))
  config.log_level = :debug
  config.cache_store = :memory_store
  config.session_store :cookie_store, key: "_shop"
  config.action_dispatch.show_exceptions = Rails.gem_version >= Gem::Version.new("7.1") ? :none : false
  config.middleware.insert_before 0, Paceline::AutoCache::Middleware
end
Rails.application.initialize!

ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table(:authors) { |t| t.string :name }
  create_table(:posts) do |t|
    t.string :title, default: "untitled"
    t.references :author, foreign_key: { on_delete: :cascade }
    t.integer :views, default: 0
    t.datetime :published_at
  end
end

class Author < ActiveRecord::Base
  has_many :posts
end

class Post < ActiveRecord::Base
  belongs_to :author, optional: true
end

# Posts that are published, in ways that compare the clock with their time.
PLAIN = {
  "plain" => ->(posts, now) { posts.where("published_at <= ?", now) },
  "table" => ->(posts, now) { posts.where("posts.published_at > ? AND views = 0", now) },
  "quoted" => ->(posts, now) { posts.where("(\"posts\".\"published_at\" < :now) OR id = 1", now: now).order(:id).limit(5) },
  "negated" => ->(posts, now) { posts.where.not("published_at >= ?", now) },
  "joined" => ->(posts, now) { posts.joins(:author).where("posts.published_at <= ?", now) },
  "of_author" => ->(_, now) { Author.joins(:posts).where("posts.published_at <= ?", now) },
  "twice" => ->(posts, now) { posts.where("published_at <= ? OR published_at > ?", now, now) },
  "between" => ->(posts, now) { posts.where("published_at BETWEEN '2001-01-01' AND ?", now) },
  "range" => ->(posts, now) { posts.where(published_at: ..now) },
  "beginning" => ->(posts, now) { posts.where(published_at: now..) },
  "within" => ->(posts, now) { posts.where(published_at: Time.at(0)..now, views: 0..5) },
  "excluding" => ->(posts, now) { posts.where(published_at: Time.at(0)...now) },
  "not_within" => ->(posts, now) { posts.where.not(published_at: Time.at(0)..now) },
  "of_posts" => ->(_, now) { Author.joins(:posts).where(posts: { published_at: ..now }) }
}.freeze
# In ways that are not known.
ODD = {
  "function" => ->(posts, now) { posts.where("julianday(published_at) <= julianday(?)", now) },
  "text" => ->(posts, now) { posts.where("title <= ?", now) },
  "shown" => ->(posts, now) { posts.select(Post.sanitize_sql_array(["*, ? AS now", now])) },
  "shifted" => ->(posts, now) { posts.where("published_at <= datetime(?, '-1 day')", now) },
  "concatenated" => ->(posts, now) { posts.where("published_at <= ? || 'x'", now) },
  "equal" => ->(posts, now) { posts.where("published_at = ?", now) },
  "around" => ->(posts, now) { posts.where("? BETWEEN published_at AND '2999-01-01'", now) },
  "between_more" => ->(posts, now) { posts.where("published_at BETWEEN '2001-01-01' AND ? || 'x'", now) },
  "between_column" => ->(posts, now) { posts.where("views BETWEEN 1 AND published_at <= ?", now) },
  "equal_range" => ->(posts, now) { posts.where(published_at: now) },
  "renamed" => ->(posts, now) { posts.select("p.*").from("posts AS p").where("p.published_at <= ?", now) },
  "stolen" => ->(posts, now) { posts.from("(SELECT * FROM posts) AS posts").where("posts.published_at <= ?", now) },
  "ordered" => ->(posts, now) { posts.order(Arel.sql(Post.sanitize_sql_array(["published_at <= ?, id", now]))) },
  "commented" => ->(posts, now) { posts.where("published_at <= ? /* ' */", now) },
  "part" => ->(posts, now) { posts.where("published_at <= ? AND title <> ?", now, "x#{Post.sanitize_sql_array(["?", now]).delete("'")}") },
  "negative" => ->(posts, now) { posts.where("-published_at <= ?", now) },
  "unused" => ->(posts, now) { Post.sanitize_sql_array(["?", now]) && posts.all },
  "raw" => ->(posts, now) { now > Time.at(0) && Post.connection.raw_connection.execute("SELECT 1 WHERE 1 < ?", [2]) && posts.all },
  "raw_text" => lambda do |posts, now|
    text = Post.sanitize_sql_array(["?", now])
    Post.connection.raw_connection.execute("SELECT #{text}") && posts.where("published_at <= #{text}")
  end,
  "kept" => ->(posts, now) { (now > Time.at(0)) && Post.sanitize_sql_array(["?", now]) && posts.all }
}.freeze
SCOPES = PLAIN.merge(ODD).freeze

class ShopController < ActionController::Base
  protect_from_forgery with: :exception

  def post = render(plain: Post.find(params[:id]).title)
  def counted = render(plain: Post.where(author_id: 1).count.to_s)
  def joined = render(plain: Author.joins(:posts).pluck(:name).join(","))
  def raw = render(plain: ActiveRecord::Base.connection.raw_connection.execute("SELECT title FROM posts WHERE id = 1").join)
  def locale = render(plain: cookies[:locale].to_s + request.headers["X-Tenant"].to_s)
  def login = render(plain: (session[:user_id] = params[:id]).to_s)
  def whoami = render(plain: session[:user_id].to_s)
  def unverified
    ActionController::RequestForgeryProtection::ProtectionMethods::NullSession.new(self).handle_unverified_request
    render(plain: "nobody" + session[:user_id].to_s)
  end

  def fill = render(plain: (session[:items] = [1]).to_s)
  def add = render(plain: session[:items].push(2).to_s)
  def brief = render(plain: Rails.cache.fetch("brief", expires_in: 3600) { "x" })
  def clock = render(plain: 1.day.ago.to_s)
  def chance = render(plain: [1, 2].sample.to_s)
  # `by`: which methods of SecureRandom, with their arguments.
  def named = render(inline: params[:by].split.map { |call| "<form name=\"f-#{eval("SecureRandom.#{call}", binding, __FILE__, __LINE__)}\">" }.join)
  def named_in_place = render(inline: "<form name=\"#{SecureRandom.hex(4).tap { |name| name.upcase! }}\">")
  def fragment = render(inline: "<% cache('form') do %><form name=\"f-<%= SecureRandom.hex(4) %>\"><% end %>")
  def ticket = render(plain: SecureRandom.hex(4).tap { |ticket| Rails.cache.write("tickets/#{ticket}", 1) })
  def cached_before = render(plain: Rails.cache.write("seen", 1).to_s + SecureRandom.hex(4))
  def file = render(plain: File.read(File.join(FOLDER, "notice.txt")))
  def cached = render(plain: Rails.cache.fetch("posts/all") { Post.count.to_s })
  def thread = render(plain: Thread.new { Post.count.to_s }.value)
  def visit = render(plain: Post.where(id: 1).update_all("views = views + 1").to_s)
  def listed = render(plain: request.headers.map(&:first).grep(/\AHTTP_/).join(","))
  def copied = render(plain: request.env.to_h.size.to_s)
  def encoded = render(plain: request.env.slice("HTTP_X_TENANT").merge(request.env.with_indifferent_access.slice(:HTTP_X_SHOP)).to_json)
  def nothing = render(plain: "hello")
  def where = render(plain: request.remote_ip)
  def sent = send_file(File.join(FOLDER, "notice.txt"))
  def written = render(plain: Time.new.to_i.to_s)
  def published = render(plain: SCOPES.fetch(params[:as]).call(Post, Time.current).to_a.size.to_s)
  def dated = render(plain: "#{Date.current} #{Time.current > Time.at(0)}")
  def aged = render(inline: "<% [Time.at(params[:at].to_i)].each do |time| %><%= Time.now - time > 5 ? 'old' : 'new' %><% end %>")
  def lately = render(plain: (session[:seen_at].to_i > 5.minutes.ago.to_i).to_s)
  def seen = render(plain: (session[:seen] = params.fetch(:as, "yes")))
  def grown = render(plain: (session[:seen] = params.fetch(:as, "yes").dup).concat("!"))
  def forgotten = render(plain: session.delete(:return_to).to_s)
  def promised = render(plain: Concurrent::Promises.future { Post.count.to_s }.value!)
  def known = render(plain: request.session_options[:id].to_s)
  def dropped = render(plain: cookies.delete(:banner).to_s)
  def phone = render(plain: "small")
  def desk = render(plain: "large")

  def form
    render(inline: "<%= csrf_meta_tags %><%= form_tag('/posts', method: :post) do %>x<% end %>")
  end

  # With Last-Modified, no middleware reads the body for its ETag.
  def streamed
    headers["Last-Modified"] = "Wed, 25 Nov 2026 00:00:00 GMT"
    self.response_body = Enumerator.new { |out| out << "a" << Post.count.to_s }
  end
end

# Its action runs in a thread of its own.
class LiveController < ActionController::Base
  include ActionController::Live

  def counted
    response.stream.write(Post.count.to_s)
  ensure
    response.stream.close
  end
end

Rails.application.routes.draw do
  get "/posts/:id", to: "shop#post"
  get "/live", to: "live#counted"
  get "/layout", to: "shop#phone", constraints: { user_agent: /iPhone/ }
  get "/layout", to: "shop#desk"
  names = %w[counted joined raw locale login whoami unverified fill add brief clock chance named named_in_place fragment ticket cached_before file cached thread visit listed copied encoded nothing form streamed where sent written dated aged lately seen grown forgotten published promised known dropped]
  names.each { |name| get "/#{name}", to: "shop##{name}" }
end

# A visitor with cookies of his own.
class Visitor
  include Rack::Test::Methods

  def app = Rails.application

  # The recording of this request.
  def ask(path, headers = {})
    get(path, {}, headers)
    raise "#{last_response.status}: #{last_response.body[0, 500]}" unless last_response.ok?
    RECORDED.fetch(path[/\A[^?]+/])
  end
end
