# frozen_string_literal: true

require_relative "support/shadow_case"
require "session/support/backends"

# Jobs that are given to Sidekiq and Resque without ActiveJob: none goes into a queue.
class ShadowJobQueuesTest < ShadowCase
  def test_jobs_of_sidekiq_are_noted_and_not_enqueued
    skip "there is no redis-server" if SessionBackends::SERVERS.empty?
    skip "no gem sidekiq" unless Gem::Specification.find_all_by_name("sidekiq").any?
    server = SessionBackends::Server.new(SessionBackends::SERVERS.first)
    app = <<~RUBY
      require "sidekiq"
      Sidekiq.configure_client { |config| config.redis = { url: #{server.url.inspect} } }
      class Bottle
        include Sidekiq::Worker
        sidekiq_options queue: "slow"
        def perform(_name) = nil
      end
    RUBY
    codes = { "/later" => "Bottle.perform_async('secret').class", "/in" => "Bottle.perform_in(60, 'secret').class", "/bulk" => "Bottle.perform_bulk([['secret'], ['other']]).size",
              "/queue" => "Sidekiq.redis { |redis| redis.llen('queue:slow') }", "/raw" => "(Sidekiq.redis { |redis| redis.lpush('queue:slow', 'secret') } rescue 'refused')" }
    with_shadow("#{app}#{routes(codes)}") do |shadow|
      { "/later" => "String", "/in" => "String", "/bulk" => "2" }.each do |path, text|
        result = shadow.get(path)
        assert_equal [text, "job", "Bottle in the queue slow of Sidekiq", nil], [result["text"], *result["write"]&.values_at("kind", "what"), result["error"]], path
        assert_match(/\Aconfig\.ru:\d+\z/, result["write"]["at"])
      end
      assert_equal ["0", nil], shadow.get("/queue").values_at("text", "write")
      result = shadow.get("/raw")
      assert_equal ["refused", "store", "the Redis command LPUSH"], [result["text"], *result["write"].values_at("kind", "what")]
    end
  end

  # Resque has this one method for all that it enqueues.
  def test_jobs_of_resque_are_noted_and_not_enqueued
    app = <<~RUBY
      module Resque
        extend self
        def push(queue, item) = ($pushed = [queue, item])
      end
    RUBY
    with_shadow("#{app}#{routes("/" => "(Resque.push('slow', class: 'Bottle', args: ['secret']); $pushed.inspect)")}") do |shadow|
      result = shadow.get("/")
      assert_equal ["nil", "job", "Bottle in the queue slow of Resque"], [result["text"], *result["write"]&.values_at("kind", "what")]
    end
  end
end
