# frozen_string_literal: true

require "helper"
require "open3"
require "paceline/esi"

# Fragments: markup where the server offers ESI, the fragment itself where nobody does.
class ESITest < Paceline::Test
  CAPABLE = { "HTTP_SURROGATE_CAPABILITY" => 'paceline="Surrogate/1.0 ESI/1.0"' }.freeze

  APP = lambda { |env|
    case env["PATH_INFO"]
    when "/cart" then [200, {}, ["<b>", env.values_at("REQUEST_METHOD", "QUERY_STRING", "HTTP_COOKIE", "rack.input").then { |*all, input| (all + [input.read]).join("|") }, "</b>"]]
    when "/gone" then [404, {}, ["none"]]
    when "/raises" then raise "no"
    when "/env" then [200, {}, [env.keys.sort.join(" ")]]
    when "/loop" then [200, {}, ["again ", Paceline.esi_include(env, "/loop", headers: {}, app: APP, onerror: "continue")]]
    else [302, {}, []]
    end
  }

  PRIVATE = { "cache-control" => "max-age=0, private, must-revalidate" }.freeze

  def put(path, env = {}, headers: {}, **options) = Paceline.esi_include(env, path, headers: headers, app: APP, **options)

  def test_markup_where_esi_is_offered
    headers = {}
    assert_equal '<esi:include src="/cart?a=1&amp;b=%222"/>', put("/cart?a=1&b=%222", CAPABLE, headers: headers)
    assert_equal({ "surrogate-control" => 'content="ESI/1.0"' }, headers)
    assert_equal '<esi:include src="/a" alt="/b" onerror="continue"/>', put("/a", CAPABLE, headers: headers, alt: "/b", onerror: "continue")
    assert_equal({ "surrogate-control" => 'content="ESI/1.0"' }, headers)
  end

  def test_what_the_app_said_before_is_kept
    { "max-age=60" => 'max-age=60, content="ESI/1.0"', 'content="ESI/1.0", max-age=9' => 'content="ESI/1.0", max-age=9' }.each do |said, expected|
      headers = { "Surrogate-Control" => said }
      put("/a", CAPABLE, headers: headers)
      assert_equal({ "Surrogate-Control" => expected }, headers)
    end
  end

  def test_who_offers_esi
    { 'paceline="Surrogate/1.0 ESI/1.0"' => true, 'a="x", b="ESI/1.0"' => true, "key=ESI/1.0" => true, 'paceline="Surrogate/1.0"' => false,
      'a="ESI/1.01"' => false, 'a="XESI/1.0"' => false, nil => false }.each do |value, expected|
      assert_equal expected, Paceline::ESI.offered?("HTTP_SURROGATE_CAPABILITY" => value), value.inspect
    end
  end

  # A path with what a visitor wrote in it leads nowhere else, and makes no variable of it.
  def test_paths
    assert_equal '<esi:include src="/a%24(HTTP_COOKIE{session})&quot;&lt;"/>', put('/a$(HTTP_COOKIE{session})"<', CAPABLE)
    ["//evil.test/", "http://evil.test/", "cart", "", "/\\evil.test", "/a b", "/a\nb", nil].each do |path|
      [CAPABLE, {}].each { |env| assert_raises(ArgumentError, path.inspect) { put(path, env) } }
    end
    assert_raises(ArgumentError) { put("/a", CAPABLE, alt: "http://evil.test/") }
    assert_raises(ArgumentError) { put("/a", CAPABLE, onerror: "ignore") }
  end

  def test_the_fragment_itself_where_nobody_offers_esi
    env = { "REQUEST_METHOD" => "POST", "PATH_INFO" => "/page", "SCRIPT_NAME" => "", "QUERY_STRING" => "q=1", "HTTP_COOKIE" => "a=b",
            "rack.input" => StringIO.new("body"), "CONTENT_LENGTH" => "4" }
    headers = {}
    assert_equal "<b>GET|x=1|a=b|</b>", put("/cart?x=1#there", env, headers: headers)
    assert_equal PRIVATE, headers
    assert_equal "body", env["rack.input"].read
    assert_equal "<b>GET||a=b|</b>", put("/shop/cart", env.merge("SCRIPT_NAME" => "/shop"))
    page = { "HTTP_IF_NONE_MATCH" => "x", "HTTP_RANGE" => "x", "rack.request.form_hash" => {}, "action_dispatch.request.parameters" => {},
             "action_dispatch.cookies" => 1, "CONTENT_TYPE" => "x", "rack.hijack" => 1, "HTTP_COOKIE" => "a=b", "rack.session" => {} }
    kept = %w[HTTP_COOKIE PATH_INFO QUERY_STRING REQUEST_METHOD REQUEST_URI SCRIPT_NAME paceline.esi.depth rack.hijack? rack.input rack.session]
    assert_equal kept.join(" "), put("/env", page)
  end

  # The page is kept without its fragments; with them it is one visitor's.
  def test_a_page_with_its_fragments_in_it_is_private
    headers = { "Cache-Control" => "public, max-age=60", "surrogate-control" => "max-age=60", "CDN-Cache-Control" => "max-age=60", "Expires" => "x",
                "etag" => '"t"', "Last-Modified" => "x", "x-other" => "kept" }
    put("/cart", headers: headers)
    assert_equal PRIVATE.merge("x-other" => "kept"), headers
  end

  def test_fragments_that_fail
    %w[/gone /raises /moved].each do |path|
      assert_equal "<b>GET|||</b>", put(path, alt: "/cart")
      assert_equal "", put(path, alt: "/gone", onerror: "continue")
    end
    assert_match(/status 404/, assert_raises(Paceline::ESI::Failed) { put("/gone") }.message)
    assert_equal "no", assert_raises(RuntimeError) { put("/raises") }.message
  end

  def test_a_loop_ends
    assert_equal "again " * 5, put("/loop", onerror: "continue")
  end

  # An app of one file, in a process of its own; with whatever Rails there is.
  RAILS = <<~'RUBY'
    require "action_controller/railtie"
    require "action_view/railtie"
    require "paceline"
    class App < Rails::Application
      config.eager_load = false
      config.logger = Logger.new(nil)
      config.secret_key_base = "x" * 64
      config.hosts.clear
      config.action_dispatch.show_exceptions = false
    end
    class PagesController < ActionController::Base
      def page
        session[:name] = "Ann"
        expires_in 10.minutes, public: true
        response.headers["Surrogate-Control"] = "max-age=600"
        cookies[:page] = "1"
        render inline: "<%= params[:id] %> <%= esi_include '/part?id=2', onerror: 'continue' %> <%= params[:id] %> <%= esi_include '/none', onerror: 'continue' %>"
      end
      def part = render(inline: "<i><%= params[:id] %> <%= session[:name] %> <%= request.path %></i>")
    end
    App.initialize!
    App.routes.draw do
      get "/page" => "pages#page"
      post "/page" => "pages#page"
      get "/part" => "pages#part"
    end
    require "rack/mock"
    ask = ->(method, fields) { Rack::MockRequest.new(App).request(method, "/page", { params: { id: "1" } }.merge(fields)) }
    [ask.("GET", {}), ask.("POST", {}), ask.("GET", "HTTP_SURROGATE_CAPABILITY" => 'paceline="Surrogate/1.0 ESI/1.0"')].each do |answer|
      puts [answer.status, answer.get_header("cache-control"), answer.get_header("surrogate-control").inspect, answer.body].join(" ")
    end
  RUBY

  def test_in_rails_views
    in_tmpdir("app.rb" => RAILS) do |dir|
      skip "no Rails" unless system(Gem.ruby, "-e", "require 'rails'", out: File::NULL, err: File::NULL)
      output, status = Open3.capture2e(Gem.ruby, "-W0", "-I#{File.expand_path("../lib", __dir__)}", "app.rb", chdir: dir)
      assert status.success?, output
      assert_equal <<~TEXT, output
        200 max-age=0, private, must-revalidate nil 1 <i>2 Ann /part</i> 1 
        200 max-age=0, private, must-revalidate nil 1 <i>2 Ann /part</i> 1 
        200 max-age=600, public "max-age=600, content=\\"ESI/1.0\\"" 1 <esi:include src="/part?id=2" onerror="continue"/> 1 <esi:include src="/none" onerror="continue"/>
      TEXT
    end
  end
end
