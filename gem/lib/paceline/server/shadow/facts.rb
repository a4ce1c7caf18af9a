# frozen_string_literal: true

require_relative "connection_pools"
require_relative "evidence/log"
require_relative "evidence/middleware_chain"
require_relative "evidence/xml_mini"
require_relative "patches"

# How the application in this process is set up. It only looks, loads nothing, and must be called before a shadow changes any of this.
module Paceline
  module Server
    module Shadow
      module Facts
        GEMS = %w[builder faraday nokogiri net-http-persistent redis mail pg sqlite3 activerecord sinatra].freeze
        # Of those that a distribution may have installed without RubyGems' knowledge.
        VERSIONS = { "nokogiri" => "Nokogiri::VERSION", "pg" => "PG::VERSION", "sqlite3" => "SQLite3::VERSION", "sinatra" => "Sinatra::VERSION" }.freeze
        private_constant :GEMS, :VERSIONS

        class << self
          # The members of FACTS, ready for JSON; nil and empty: the application has no such thing. `root`: its folder; `environment`: as
          # "production"; `app`: the whole Rack application, for its middleware; nil: Rails'.
          def collect(root:, environment:, app: nil)
            {
              environment: environment.to_s, root: root.to_s, log_level: log_level, eager_load: setting(:eager_load), cache_classes: setting(:cache_classes),
              perform_caching: rails && Patches::PerformCaching.on?, template_caching: rails && Patches::TemplateCaching.on?,
              yjit: yjit, xml_mini: Evidence::XmlMini.backend, builder: builder, http: Patches::HttpInstall.installed? ? "paceline" : "net",
              session_store: session_store(app), cache_store: cache_store, mail_delivery: mail_delivery, job_adapter: job_adapter,
              middleware: middleware(app), databases: databases, gems: gems
            }
          end

          private

          def rails
            ::Rails.application if defined?(::Rails) && ::Rails.respond_to?(:application)
          end

          # Of config; nil without Rails.
          def setting(name)
            value = rails&.config&.public_send(name)
            value.nil? ? nil : !!value
          rescue NoMethodError # this version has no such setting
            nil
          end

          def log_level
            rails && ::Rails.logger && Evidence::Log.level_name(::Rails.logger)
          end

          def yjit
            return "missing" unless defined?(::RubyVM::YJIT)

            ::RubyVM::YJIT.enabled? ? "on" : "off"
          end

          def builder
            return "paceline" if Patches::Xml.replaced?

            "builder" if defined?(::Builder::XmlMarkup) || version("builder")
          end

          def session_store(app)
            store = rails&.config&.session_store
            return store.respond_to?(:name) ? store.name : store.to_s if store

            Evidence::MiddlewareChain.of(app).map(&:name).find { |name| name.match?(/\A(?:Rack|ActionDispatch)::Session::/) }
          rescue LoadError, NameError # a store that its gem has not defined
            nil
          end

          def cache_store
            ::Rails.cache.class.name if rails && ::Rails.respond_to?(:cache) && ::Rails.cache
          end

          def mail_delivery
            ::ActionMailer::Base.delivery_method&.to_s if defined?(::ActionMailer::Base)
          end

          def job_adapter
            ::ActiveJob::Base.queue_adapter_name&.to_s if defined?(::ActiveJob::Base)
          end

          def middleware(app)
            links = Evidence::MiddlewareChain.of(app).map(&:name)
            links.empty? && rails ? rails.middleware.map { |one| one.name.to_s } : links
          end

          def databases
            ConnectionPools.all.map(&:db_config).uniq.map { |config| { adapter: config.adapter.to_s, file: file(config) } }
          end

          # Of SQLite's databases, as ActiveRecord opens them.
          def file(config)
            name = config.database.to_s
            return if !config.adapter.to_s.start_with?("sqlite") || name.empty? || name.start_with?(":memory:", "file:")

            File.expand_path(name, rails ? ::Rails.root : nil)
          end

          def gems
            GEMS.to_h { |name| [name, version(name)] }.compact
          end

          def version(name)
            spec = ::Gem.loaded_specs[name] if defined?(::Gem)
            spec ? spec.version.to_s : constant(VERSIONS[name])
          end

          def constant(path)
            path&.split("::")&.inject(Object) do |within, name|
              return nil if within.autoload?(name) || !within.const_defined?(name, false)

              within.const_get(name, false)
            end
          end
        end
      end
    end
  end
end
