# `config.paceline.front`: less middleware in Ruby, and the same responses.
require_relative "../support/scenario"
require_relative "../support/rails_shop"

class RailsFrontTest < Minitest::Test
  include Scenario
  include RailsShop

  CODE = <<~'RUBY'
    class BeersController < ActionController::Base
      def plain = render(plain: "pils")
      def large = render(plain: "pils " * 40_000)
      def empty = render(plain: "")
      def created = render(plain: "new", status: 201)
      def missing = render(plain: "none", status: 404)
      def nothing = head(:no_content)
      def stored = (response.headers["Cache-Control"] = "public, max-age=60") && render(plain: "stored")
      def cookie = (cookies[:seen] = "1") && render(html: "<p>seen</p>".html_safe)
      def known = fresh_when(etag: "known", public: true) || render(plain: "known")
      def strong = (response.headers["ETag"] = '"strong"') && render(plain: "strong")
      def dated = (response.headers["Last-Modified"] = "Mon, 23 Nov 2026 10:00:00 GMT") && render(plain: "dated")
      def file = send_file(Rails.root.join("public/404.html"), filename: "none.html", type: "text/html")
      def streamed = (self.response_body = Enumerator.new { |out| 3.times { |nth| out << "piece #{nth}\n" } })
      def raises = raise("spilled")
      def moved = redirect_to("/plain")
      def stack = render(plain: Rails.application.config.middleware.map(&:name).join("\n"))
      skip_forgery_protection
    end
    class TapsController < ActionController::Base
      include ActionController::Live
      def live
        response.headers["ETag"] = '"live"'
        3.times { |nth| response.stream.write("drop #{nth}\n") }
      ensure
        response.stream.close
      end
    end
    Rails.application.routes.draw do
      get "/live", to: "taps#live"
      BeersController.public_instance_methods(false).each { |name| match "/#{name}", to: "beers##{name}", via: :all }
    end
  RUBY
  FILES = { "public/about.html" => "<h1>About</h1>\n", "public/robots.txt" => "User-agent: *\n", "public/404.html" => "not here\n",
            "public/500.html" => "broken\n", "public/shop/index.html" => "shop\n", "public/.hidden" => "secret\n" }.freeze
  PATHS = %w[/plain /large /empty /created /missing /nothing /stored /cookie /known /strong /dated /file /streamed /live /raises /moved
             /about /robots.txt /shop /shop/ /unknown /plain.html].freeze
  # What differs between two requests, or follows from the time between them.
  VARYING = %w[date x-runtime x-request-id set-cookie].freeze

  # The application's folder. `config`: more lines of its configuration.
  def folder(*config)
    config = ['config.paceline.front = ENV["FRONT"] == "yes"', "config.public_file_server.enabled = true", *config]
    ru = RailsShop.config_ru(CODE, railties: %w[action_controller], config: config)
    app(FILES.merge("config.ru" => ru.sub('require "rails"', 'require "rails"; require "paceline"'), "paceline.toml" => "page_cache = false\n"))
  end

  def start(dir, front, *arguments)
    serve(dir, "-w", "1", "-t", "1", "--control", "off", *arguments, env: { "FRONT" => front })
  end

  def responses(server, path, fields, method)
    @server = server
    response = ask(path, *fields, method: method)
    [response.status, response.fields.reject { |name, _| VARYING.include?(name.downcase) }.sort, response.body]
  end

  def tag(server, path) = server.get(path)["etag"]

  def assert_equal_answers(plain, front)
    PATHS.each do |path|
      conditions = [[], ["If-None-Match: #{tag(plain, path) || '"none"'}"], ['If-None-Match: "other"'],
                    ["If-Modified-Since: Mon, 23 Nov 2026 10:00:00 GMT"], ["If-Modified-Since: Mon, 23 Nov 2026 09:00:00 GMT"]]
      conditions.product(%w[GET HEAD POST]).each do |fields, method|
        assert_equal responses(plain, path, fields, method), responses(front, path, fields, method), "#{method} #{path} #{fields}"
      end
    end
  end

  def test_the_front_answers_as_rails_does_with_less_middleware
    skip_without_rails
    dir = folder
    plain, front = start(dir, "no"), start(dir, "yes")
    assert_equal_answers(plain, front)

    gone = plain.get("/stack").body.lines(chomp: true) - front.get("/stack").body.lines(chomp: true)
    assert_equal "404", front.get("/.hidden").code, "names that begin with a dot are nobody's"
    %w[/about.html/ /./about /shop%2Findex.html].each { |path| assert_equal %w[200 404], [plain, front].map { |server| server.get(path).code }, path }
    always = %w[Rack::Sendfile ActionDispatch::Static Rack::Head]
    if front.output.include?("Rack 3 is needed")
      assert_equal always, gone
    else
      assert_equal [*always, "Rack::ConditionalGet", "Rack::ETag"], gone
      assert_equal "304", front.get("/plain", "If-None-Match" => "\"x\", #{tag(front, "/plain")}").code, "of several tags one is the client's"
    end
  end

  def test_what_something_else_needs_stays_and_the_start_says_why
    skip_without_rails
    dir = folder("config.middleware.insert_before 0, Rack::Deflater", 'config.public_file_server.index_name = "start"',
                 'config.action_dispatch.x_sendfile_header = "X-Sendfile"')
    server = start(dir, "yes")
    stack = server.get("/stack").body.lines(chomp: true)
    assert_equal [], %w[Rack::Deflater Rack::Sendfile ActionDispatch::Static Rack::ConditionalGet Rack::ETag] - stack
    refute_includes stack, "Rack::Head"
    ["ActionDispatch::Static stays, since public_file_server.index_name is set",
     /Rack::ETag stays(, since Rack::Deflater needs its tag|: Rack 3 is needed)/].each { |why| assert_match why, server.output }
  end

  def test_files_stay_with_rails_where_the_front_serves_none
    skip_without_rails
    server = start(folder, "yes", "--static-files=false")
    assert_match(/ActionDispatch::Static stays, since the front serves no files of .*public/, server.output)
    assert_equal "<h1>About</h1>\n", server.get("/about").body
  end
end
