# frozen_string_literal: true

require_relative "support/shop_case"
require "paceline/server/shadow/facts"

# How an application is set up: a Rails application, and one that is not.
class ShadowFactsTest < ShopCase
  def test_rails
    facts, root = in_shop('[Paceline::Server::Shadow::Facts.collect(root: ROOT, environment: "test"), ROOT]')
    expected = { "environment" => "test", "root" => root, "log_level" => "debug", "eager_load" => false, "cache_classes" => true, "perform_caching" => true, "template_caching" => nil, "xml_mini" => "REXML", "builder" => "builder",
                 "http" => "net", "session_store" => "ActionDispatch::Session::CookieStore", "cache_store" => "ActiveSupport::Cache::MemoryStore",
                 "mail_delivery" => "test", "job_adapter" => "test", "databases" => [{ "adapter" => "sqlite3", "file" => "#{root}/db/shop.sqlite3" }] }
    assert_equal expected, facts.slice(*expected.keys)
    assert_includes %w[on off missing], facts["yjit"]
    assert_equal "SlowThing", facts["middleware"].last
    assert_operator facts["middleware"].size, :>, 10
    assert_equal %w[activerecord builder mail sqlite3], facts["gems"].keys.sort & %w[activerecord builder mail sqlite3]
    assert_match(/\A\d+\.\d+/, facts["gems"]["activerecord"])
  end

  def test_rack
    code = <<~'RUBY'
      require "json"
      require "rack"
      require "paceline/server/shadow/facts"
      class Outer < Struct.new(:app); def call(env) = app.call(env); end
      app = Rack::URLMap.new("/a" => Outer.new(->(env) { [200, {}, []] }), "/" => Rack::Head.new(->(env) { [200, {}, []] }))
      puts JSON.generate(Paceline::Server::Shadow::Facts.collect(root: "/srv/app", environment: "production", app: Rack::ConditionalGet.new(app)))
    RUBY
    out, status = Open3.capture2(RbConfig.ruby, "-W0", "-I#{LIB}", "-e", code)
    assert_predicate status, :success?
    facts = JSON.parse(out)
    nothing = %w[log_level eager_load cache_classes perform_caching template_caching xml_mini builder session_store cache_store mail_delivery job_adapter]
    assert_equal [nil] * nothing.size, facts.values_at(*nothing)
    assert_equal ["production", "/srv/app", "net", []], facts.values_at("environment", "root", "http", "databases")
    assert_equal %w[Rack::ConditionalGet Rack::Head], facts["middleware"] - ["Outer"]
  end
end
