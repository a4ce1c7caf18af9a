# frozen_string_literal: true

# Loads the application: Bundler, then config/environment, config.ru or a classic Sinatra file. Never requires a
# library before Bundler has been set up, and never decides what to do when the app does not load.
require_relative "../native"
require_relative "database"
require_relative "tuning"

module Paceline
  module Server
    class AppLoader
      # The gem's own libraries.
      LIBRARIES = File.expand_path("../..", __dir__)
      private_constant :LIBRARIES

      # Whether this process has the application from here: then it is one of the server's own.
      def self.loads? = @loads

      # The folder whose files the front serves, so that the application is not asked for them; or nil.
      def self.served_folder = @served_folder

      def self.loads!(served_folder = nil)
        @loads = true
        @served_folder = served_folder unless served_folder.to_s.empty?
      end

      # The bundle, if there is a Gemfile; and this gem's libraries, which an application that runs here may require without having the
      # gem installed.
      def self.set_up_libraries(gemfile, root)
        unless gemfile.to_s.empty?
          ENV["BUNDLE_GEMFILE"] = File.expand_path(gemfile, root)
          require "bundler"
          Bundler.setup
        end
        $LOAD_PATH << LIBRARIES unless $LOAD_PATH.include?(LIBRARIES) || gem_installed?
      end

      # One in the bundle, or where RubyGems looks: its libraries are the application's. RubyGems would find it only after the load path.
      # Of what is loaded by now; empty where it is not.
      def self.versions
        rack = defined?(::Rack) && ::Rack.respond_to?(:release) ? ::Rack.release.to_s : ""
        rails = defined?(::Rails) && ::Rails.respond_to?(:version) ? ::Rails.version.to_s : ""
        { "ruby" => RUBY_VERSION, "rack" => rack, "rails" => rails }
      end

      def self.gem_installed?
        defined?(::Gem::Specification) && ::Gem::Specification.find_all_by_name("paceline").any?
      end
      private_class_method :gem_installed?

      attr_reader :app, :root, :kind

      # `settings` are START's pairs; the block is told of each step (name, "begin" or "done").
      def initialize(settings, &on_step)
        @root = settings.fetch("root")
        @kind = settings["kind"].to_s
        @rackup = settings["rackup"].to_s
        @environment = settings["environment"].to_s
        @gemfile = settings["gemfile"].to_s
        @served_folder = settings["served_folder"]
        @tuning = Tuning.new(settings)
        @on_step = on_step || ->(_name, _edge) {}
        # Workers that are forked from one load of the code share it. Where each loads the code by itself, the front must not take
        # their loads for one.
        own = "-own" if settings["preload"] == "0"
        @release = "#{Process.pid}-#{Process.clock_gettime(Process::CLOCK_MONOTONIC, :millisecond)}#{own}"
        @current_step = "bundler"
      end

      # The step under way, for the failure report.
      attr_reader :current_step

      def prepare
        Dir.chdir(@root)
        unless @environment.empty?
          ENV["RACK_ENV"] = ENV["RAILS_ENV"] = ENV["APP_ENV"] = @environment
        end
        step("bundler") { self.class.set_up_libraries(@gemfile, @root) }
      end

      # `given`: an application that needs no file, as config/puma.rb may have one.
      def load(given = nil)
        self.class.loads!(@served_folder)
        step("boot") do
          @app = recorded(boot(given))
          ask_for_migrations
        end
        step("preload") { warm }
        @app
      end

      # Ruby, Rack and Rails as they were loaded, and what the start line tells besides.
      def versions
        { **AppLoader.versions, "yjit" => @tuning.yjit_state, "native" => NativePart.missing || "yes" }
      end

      private

      def step(name)
        @current_step = name
        @on_step.call(name, "begin")
        yield
        @on_step.call(name, "done")
      end

      def boot(given)
        app = given ||
              case @kind
              when "rails" then boot_rails
              when "sinatra" then boot_sinatra
              else boot_rack
              end
        require "rack"
        require "stringio"
        app
      end

      # With `migration_error = :page_load`, as in development, Rails answers no request while migrations are pending or its database can't be
      # reached. What it would raise for the first one is a start that has failed.
      def ask_for_migrations
        stack = ::Rails.application&.middleware if defined?(::Rails) && ::Rails.respond_to?(:application)
        asks = stack.find { |middleware| middleware.name == "ActiveRecord::Migration::CheckPending" } if stack.respond_to?(:find)
        return unless asks
        asks.klass.new(->(_env) {}).call({})
        Database.release
      end

      # For the automatic page cache: with what the front has to know of each page.
      def recorded(app)
        journal = ENV["PACELINE_AUTO_CACHE"].to_s
        return app if journal.empty?
        require_relative "../auto_cache"
        AutoCache.wrap(app, root: @root, release: @release, journal: journal, samples: !ENV["PACELINE_AUTO_CACHE_SAMPLES"].to_s.empty?)
      end

      def boot_rails
        require File.join(@root, "config", "environment")
        File.file?(rackup_path) ? parse_rackup : ::Rails.application
      end

      def boot_rack
        require "rack"
        parse_rackup
      end

      # Rack 2 returns [app, options], Rack 3 the app.
      def parse_rackup
        require "rack"
        require "rack/builder"
        built = ::Rack::Builder.parse_file(rackup_path)
        built.is_a?(Array) ? built.first : built
      end

      def boot_sinatra
        file = rackup_path("app.rb")
        require "sinatra/base"
        ::Sinatra::Application.set(:run, false) if defined?(::Sinatra::Application)
        require "sinatra"
        ::Sinatra::Application.set(:run, false)
        ::Sinatra::Application.set(:app_file, file)
        require file
        ::Sinatra::Application.set(:run, false)
        ::Sinatra::Application
      end

      def rackup_path(default = "config.ru")
        File.expand_path(@rackup.empty? ? default : @rackup, @root)
      end

      # What is better done once, before the fork, than in each worker. Rails loads its classes by its own setting.
      def warm
        @app.to_app if @app.respond_to?(:to_app) && !@app.respond_to?(:call)
        @tuning.prepare(@app)
      end
    end
  end
end
