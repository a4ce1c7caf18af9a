# frozen_string_literal: true

# Generated applications of Sinatra, with ActiveRecord, and of Rack alone. Makes text only.
require_relative "base"

module Bench
  module Generated
    class SmallBase < Base
      def self.place(path) = path.delete_prefix("app/").delete_prefix("controllers/")

      private

      def head = "$LOAD_PATH.unshift(File.join(ENV.fetch(\"PACELINE_GEM_DIR\"), \"lib\"))\nAPP_ROOT = __dir__\n"
      def used = middleware.map { |fault| "use #{fault.name}\n" }.join
      def sessions = @app.sessions? ? "use Rack::Session::Cookie, key: \"shop\", secret: \"0\" * 64\n" : ""
      def load_pages = pages.map { |page| "require \"\#{APP_ROOT}/pages/#{page.word}\"\n" }.join
    end

    class SinatraBase < SmallBase
      FORMS = %w[model lib gem helper serializer].freeze

      def files
        common.merge(database).merge(models("ActiveRecord::Base").transform_keys { |path| self.class.place(path) }).merge(*pages.map { |page| of_page(page) }).merge(
          "config.ru" => "require_relative \"app\"\n#{used}run Shop\n", "app.rb" => app,
          "views/layout.erb" => "<!doctype html>\n<title>Shop</title>\n<% if @customer %><p>Hello, <%= @customer %>.</p><% end %>\n<% if @seen %><p><%= @seen %> seen</p><% end %>\n<%= yield %>\n"
        )
      end

      private

      def of_page(page)
        fault = page.fault
        number = page.number("params[\"id\"]")
        # The filter's pattern knows of no :id.
        text = fault&.before? ? "  before \"#{page.route}\" do\n    @found = #{fault.call(number)}\n  end\n\n" : ""
        helpers = fault && fault.mixed ? "  helpers #{fault.name}\n" : ""
        lines = ["  get \"#{page.route}\" do", "    number = @number = #{number}", ("    headers \"Cache-Control\" => \"private, no-store\"" if page.personal), "    @rows = #{page.rows}",
                 ("    @found = #{fault.call("number")}" if fault&.in_page? || fault&.middleware?),
                 ("    @seen = #{page.seen("session")}" if page.session), "    erb :#{page.word}", "  end"]
        code = "class Shop\n#{helpers}#{text}#{lines.compact.join("\n")}\nend\n"
        { "pages/#{page.word}.rb" => fault ? mark(code, fault) : code, "views/#{page.word}.erb" => view(page, "@number") }
      end

      def app
        models = @shop.models.keys.map { |name| "require \"\#{APP_ROOT}/models/#{name.downcase}\"\n" }.join
        <<~RUBY
          #{head}require "logger"
          require "sinatra/base"
          require "active_record"
          require "paceline/http"
          ActiveRecord::Base.establish_connection(#{@shop.database.connection("APP_ROOT").map { |key, value| "#{key}: #{value}" }.join(", ")}, pool: 32, timeout: 5000)
          #{models}#{required(all: true)}#{slot(:startup)}
          class Shop < Sinatra::Base
            set :environment, :production
            set :root, APP_ROOT#{"\n  enable :sessions\n  set :session_secret, \"0\" * 64" if @app.sessions?}
            before { @customer = request.cookies["customer"] }
            after { ActiveRecord::Base.connection_handler.clear_active_connections! }
          end
          #{load_pages}
        RUBY
      end
    end

    class RackBase < SmallBase
      FORMS = %w[model lib gem concern serializer].freeze

      def files
        common.merge(*pages.map { |page| of_page(page) }).merge("config.ru" => "require_relative \"app\"\n#{sessions}#{used}run Shop.new\n", "app.rb" => app, "page.rb" => page_class)
      end

      private

      def of_page(page)
        fault = page.fault
        lines = ["class #{page.class_name} < Page", ("  include #{fault.name}" if fault&.mixed == "page"), ("  def headers = super.merge(\"cache-control\" => \"private, no-store\")" if page.personal), "",
                 "  def rows(number) = #{page.rows}", ("  def found(number, request) = #{fault.call("number")}" if fault), "end"]
        code = "#{lines.compact.join("\n")}\n"
        { "pages/#{page.word}.rb" => fault ? mark(code, fault) : code }
      end

      def app
        routes = pages.map { |page| "    \"#{page.word}\" => #{page.class_name}.new#{"," unless page == pages.last}\n" }.join
        <<~RUBY
          #{head}require "rack"
          require "paceline/http"
          require "\#{APP_ROOT}/page"
          #{required(all: true)}#{slot(:startup)}#{load_pages}
          class Shop
            PAGES = {
          #{routes}  }.freeze

            def call(env)
              _, word, id = env["PATH_INFO"].split("/")
              page = PAGES[word]
              page ? page.answer((id || 17).to_i, Rack::Request.new(env)) : [404, { "content-type" => "text/plain" }, ["not found"]]
            end
          end
        RUBY
      end

      def page_class
        <<~RUBY
          class Page
            def headers = { "content-type" => "text/html; charset=utf-8" }
            def found(_number, _request) = ""
            def seen(_number, _request) = nil

            def answer(number, request)
              customer, seen = request.cookies["customer"], seen(number, request)
              list = rows(number).map { |row| "<li>\#{row}</li>\\n" }.join
              [200, headers, ["<!doctype html>\\n<title>Shop</title>\\n\#{"<p>Hello, \#{customer}.</p>" if customer}\#{"<p>\#{seen} seen</p>" if seen}<ul>\\n\#{list}</ul>\\n<p>\#{found(number, request)}</p>\\n"]]
            end
          end
        RUBY
      end
    end
  end
end
