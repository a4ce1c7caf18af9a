# frozen_string_literal: true

# `ruby shop.rb FOLDER CODE`: makes the application of shop_app.rb in FOLDER, runs CODE within Shop, and prints what it returns as JSON.
require "fileutils"
require "json"
require "tmpdir"

ROOT = File.realpath(ARGV[0])
FileUtils.mkdir_p(%w[app db config log].map { |name| File.join(ROOT, name) })
FileUtils.cp(File.join(__dir__, "shop_app.rb"), File.join(ROOT, "app/shop.rb"))
require File.join(ROOT, "app/shop.rb")

# What Shadow::Copy is for patches.
class FakeShadow
  attr_accessor :app
  attr_reader :root, :tmpdir

  def initialize(app, tmpdir)
    @app = app
    @root = ROOT
    @tmpdir = tmpdir
    @listeners = []
    @seen = {}
  end

  def on_replay(&block)
    @listeners << block
  end

  def begin_replay(id)
    @listeners.each { |listener| listener.call(id, !@seen[id]) }
    @seen[id] = true
  end
end

# What the tests' code calls.
module Shop
  TMPDIR = Dir.mktmpdir
  SHADOW = FakeShadow.new(Rails.application, TMPDIR)
  at_exit { FileUtils.remove_entry(TMPDIR) }

  module_function

  def shadow
    SHADOW
  end

  def env(path)
    Rack::MockRequest.env_for(path, "HTTP_HOST" => "shop.test")
  end

  # [status, body, pieces]
  def get(path, env = self.env(path))
    status, _, body = shadow.app.call(env)
    pieces = []
    body.each { |piece| pieces << piece }
    body.close if body.respond_to?(:close)
    [status, pieces.join, pieces.size]
  end

  # The same as the replay of a request, which is named by its path.
  def replay(path)
    shadow.begin_replay(path)
    get(path)
  end

  def evidence(path)
    get(path)
    observe(path)
  end

  # The same without a request before it.
  def observe(path)
    env = self.env(path)
    found = Paceline::Server::Shadow::Evidence.new(root: ROOT)
    response = found.around(env) { get(path, env) }
    found.to_h.merge(response: response)
  end

  # Nil, or why the patch does nothing here.
  def patch(name, params = {})
    Paceline::Server::Shadow::Patches.apply(name, params, shadow)
    nil
  rescue Paceline::Server::Shadow::Patches::Inapplicable => e
    e.message
  end

  # SQL that reaches the database or the query cache within the block.
  def queries
    found = []
    subscriber = ActiveSupport::Notifications.subscribe("sql.active_record") { |*, payload| found << payload[:sql] unless payload[:name] == "SCHEMA" }
    yield
    found
  ensure
    ActiveSupport::Notifications.unsubscribe(subscriber)
  end
end

require "paceline/server/shadow/facts"
require "paceline/server/shadow/evidence"
require "paceline/server/shadow/patches"
puts JSON.generate("result" => Shop.module_eval(ARGV[1]))
