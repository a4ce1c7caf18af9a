# frozen_string_literal: true

# A generated application of Rails 6.1 to 7.2, without Bundler, as those of bench/apps/faults. Makes text only.
require_relative "base"

module Bench
  module Generated
    class RailsBase < Base
      FORMS = %w[model lib gem helper concern serializer].freeze

      def files
        common.merge(database).merge(models("ApplicationRecord")).merge(*pages.map { |page| of_page(page) }).merge(settings).merge(
          "app/models/application_record.rb" => "class ApplicationRecord < ActiveRecord::Base\n  self.abstract_class = true\nend\n",
          "app/controllers/application_controller.rb" => controller,
          "app/views/layouts/application.html.erb" => "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Shop</title></head>\n<body>\n" \
                                                      "<% if @customer %><p>Hello, <%= @customer %>.</p><% end %>\n<% if @seen %><p><%= @seen %> seen</p><% end %>\n<%= yield %>\n</body>\n</html>\n"
        )
      end

      private

      def of_page(page)
        { "app/controllers/#{page.word}_controller.rb" => page_controller(page), "app/views/#{page.word}/#{page.action}.html.erb" => view(page, "@number") }
      end

      def page_controller(page)
        fault = page.fault
        lines = ["class #{page.class_name}Controller < ApplicationController"]
        lines << "  include #{fault.name}" if fault&.mixed == "page"
        lines << "  before_action :keep_from_caches" if page.personal
        lines << "  before_action :prepare" if fault&.before?
        lines += ["", "  def #{page.action}", "    number = @number = #{page.number("params[:id]")}", "    @rows = #{page.rows}"]
        lines << "    @found = #{fault.call("number")}" if fault&.in_page? || fault&.middleware?
        lines << "    @seen = #{page.seen("session")}" if page.session
        lines << "  end"
        lines += ["", "  private", "", "  def prepare", "    number = #{page.number("params[:id]")}", "    @found = #{fault.call("number")}", "  end"] if fault&.before?
        text = "#{(lines + ["end"]).join("\n")}\n"
        fault ? mark(text, fault) : text
      end

      def controller
        <<~RUBY
          class ApplicationController < ActionController::Base
            before_action { @customer = cookies[:customer] }

            private

            def keep_from_caches
              response.headers["Cache-Control"] = "private, no-store"
            end
          end
        RUBY
      end

      def settings
        routes = pages.map { |page| "  get \"#{page.route}\", to: \"#{page.word}##{page.action}\"\n" }.join
        {
          "config/application.rb" => application, "config/environment.rb" => "require_relative \"application\"\nRails.application.initialize!\n",
          "config/routes.rb" => "Rails.application.routes.draw do\n#{routes}end\n", "config.ru" => "require_relative \"config/environment\"\nrun Rails.application\n",
          "config/database.yml" => "production:\n#{@shop.database.connection("Rails.root.to_s").map { |key, value| "  #{key}: <%= #{value} %>\n" }.join}  pool: 32\n  timeout: 5000\n",
          "config/initializers/shop.rb" => "#{required}#{middleware.map { |fault| "Rails.application.config.middleware.use #{fault.name}\n" }.join}require \"paceline/http\"\n#{slot(:startup)}",
          "config/environments/production.rb" => environment
        }
      end

      def environment
        <<~RUBY
          Rails.application.configure do
            config.cache_classes = true
            config.eager_load = true
            config.consider_all_requests_local = false
            config.public_file_server.enabled = false
            config.log_level = :info
            config.active_support.deprecation = :silence
          #{slot(:environment)}end
        RUBY
      end

      def application
        <<~RUBY
          $LOAD_PATH.unshift(File.join(ENV.fetch("PACELINE_GEM_DIR"), "lib"))
          APP_ROOT = File.expand_path("..", __dir__)
          require "logger"
          require "rails"
          require "active_record/railtie"
          require "action_controller/railtie"
          require "action_view/railtie"
          require "paceline"

          module Shop
            class Application < Rails::Application
              config.root = APP_ROOT
              config.load_defaults 6.1
              config.secret_key_base = "0" * 64
              config.active_record.dump_schema_after_migration = false
            end
          end
        RUBY
      end
    end
  end
end
