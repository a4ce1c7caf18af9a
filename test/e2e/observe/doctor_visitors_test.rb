# `paceline doctor` on pages that are everybody's and on pages that are somebody's: it advises a lifetime only where it is proven, in the words of the framework.
require_relative "../support/asking"
require_relative "../support/beside_doctor"
require_relative "../support/rails_shop"
require_relative "../support/scenario"

class DoctorVisitorsTest < Minitest::Test
  include Scenario
  include Asking
  include BesideDoctor
  include RailsShop

  # Every page takes long, and looks the same to each stranger.
  RAILS = RailsShop.config_ru(<<~'RUBY', railties: %w[action_controller]).freeze
    class PagesController < ActionController::Base
      include ActionController::HttpAuthentication::Token::ControllerMethods
      before_action { sleep 0.03 }

      def everybodys = render(plain: "beers")
      def of_session = render(plain: session[:user] ? "hello" : "beers")
      def of_signed = render(plain: cookies.signed[:user] ? "hello" : "beers")
      def of_cookie = render(plain: request.cookies["user"] == "admin" ? "hello" : "beers")
      def of_bearer = render(plain: authenticate_with_http_token { |token| token == "secret" } ? "hello" : "beers")
      def of_header = render(plain: request.headers["X-Api-Key"] == "secret" ? "hello" : "beers")
      def of_address = render(plain: request.remote_ip == "10.0.0.1" ? "hello" : "beers")
      def of_copy = render(plain: {}.merge(request.env)["HTTP_COOKIE"].to_s.include?("admin") ? "hello" : "beers")
      def of_browser = render(plain: request.user_agent.to_s)
    end
    Rails.application.routes.draw do
      PagesController.action_methods.each { |name| get name, to: "pages##{name}" }
    end
  RUBY
  PAGES = %w[/everybodys /of_session /of_signed /of_cookie /of_bearer /of_header /of_address /of_copy /of_browser].freeze

  # [route, line] of each advice.
  def advised(dir, *arguments)
    @report = report(dir, "--offline", ".", *arguments, "--only", "cache_headers,cache_vary,cache_cookie", status: [0, 1])
    assert_empty @report["sample"]["left_out"]
    @report["advice"].map { |one| [*one["routes"], one.dig("fix", "line")] }
  end

  def paths(names) = names.flat_map { |path| ["--path", path] }

  def test_of_rails_only_what_is_everybodys
    skip_without_rails
    dir = app("config.ru" => RAILS)
    assert_equal [["GET /everybodys", "expires_in 1.minute, public: true"]], advised(dir, *paths(PAGES))
    File.write(File.join(dir, "access.log"), PAGES.map { |path| "127.0.0.1 - - [24/Nov/2026:10:00:00 +0000] \"GET #{path} HTTP/1.1\" 200 5\n" }.join)
    assert_equal [["GET /everybodys", "expires_in 1.minute, public: true"]], advised(dir, "--log", "access.log")
  end

  def test_the_line_is_of_the_framework
    rack = "run ->(env) { sleep 0.03; env['PATH_INFO'] == '/own' && env['HTTP_COOKIE'] == 'admin'; [200, { 'content-type' => 'text/html' }, ['beers']] }\n"
    assert_equal [["GET /beers", "headers[\"cache-control\"] = \"public, max-age=60\""]], advised(app("config.ru" => rack), *paths(%w[/beers /own]))
    skip "Sinatra is not here" if Gem::Specification.find_all_by_name("sinatra").empty?

    sinatra = "require 'sinatra/base'\nclass Shop < Sinatra::Base\n  get('/beers') { sleep 0.03; 'beers' }\n" \
              "  get('/own') { sleep 0.03; request.cookies['user'] == 'admin' ? 'hello' : 'beers' }\nend\nrun Shop\n"
    assert_equal [["GET /beers", "cache_control :public, max_age: 60"]], advised(app("config.ru" => sinatra), *paths(%w[/beers /own]))

    # Whatever else is loaded.
    dir = app("config.ru" => "require 'sinatra/base'\n#{rack}")
    assert_equal [["GET /beers", "headers[\"cache-control\"] = \"public, max-age=60\""]], advised(dir, *paths(%w[/beers /own]))
  end

  # Nothing that a request has the machine do leaves the shadow, and what it starts is named.
  def test_programs_are_named_and_change_nothing
    code = "run ->(env) { system('sh', '-c', 'echo x > written; echo x > /tmp/paceline-doctor-test-#{Process.pid}', chdir: __dir__); [200, {}, ['made']] }\n"
    dir = app("config.ru" => code)
    advised(dir, "--path", "/")
    assert_equal "sh", @report["sample"]["programs"].keys.join
    assert_match(/\Aconfig\.ru:\d+\z/, @report["sample"]["programs"]["sh"])
    skip "no Landlock in this kernel" if @report["sample"]["unconfined"].include?("files")

    refute_path_exists File.join(dir, "written")
    refute_path_exists "/tmp/paceline-doctor-test-#{Process.pid}"
  end
end
