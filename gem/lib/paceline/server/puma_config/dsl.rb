# frozen_string_literal: true

# Whom config/puma.rb is evaluated by: an object of Puma's own class, with our words where those of its version would
# raise or say too little, or one of ours that looks the same. Never loads Puma where the bundle has none.
module Paceline
  module Server
    class PumaConfig
      module Dsl
        module_function

        def build(record, reading)
          (pumas_own? ? ByPuma.make : Own).new_for(record, reading).tap do |dsl|
            dsl.instance_variable_set(:@record, record)
            dsl.instance_variable_set(:@reading, reading)
            dsl.singleton_class.prepend(Instead.noting(record))
          end
        end

        # Whether the gem puma is in the bundle, and can be loaded.
        def pumas_own?
          return @pumas_own if defined?(@pumas_own)
          @pumas_own = !!(defined?(::Bundler) && Gem.loaded_specs.key?("puma") && load_puma)
        end

        def load_puma
          require "puma"
          require "puma/configuration"
          require "puma/plugin"
          %w[puma/events puma/log_writer].each { |name| optional(name) }
          defined?(::Puma::DSL)
        rescue LoadError, StandardError
          nil
        end

        def optional(name)
          require name
        rescue LoadError # not of this version
          nil
        end
      end

      # Rails' own code, and the application's, where the file asks for it: `rails server` has it loaded when Puma reads the file.
      module Constants
        APPLICATION = "config/application.rb"
        private_constant :APPLICATION

        def const_missing(name)
          path = File.expand_path(APPLICATION)
          return super if defined?(::Rails::Application) || !File.file?(path)
          require path
          Object.const_defined?(name) ? Object.const_get(name) : super
        end
      end

      # Puma's class of the bundle's version.
      module ByPuma
        # Variables that old versions of Puma do not understand in every form.
        NUMBERS = %w[WEB_CONCURRENCY PUMA_MIN_THREADS PUMA_MAX_THREADS MIN_THREADS MAX_THREADS PUMA_PERSISTENT_TIMEOUT].freeze
        private_constant :NUMBERS

        module_function

        def make
          @made ||= Class.new(::Puma::DSL) do
            extend Constants
            include Stub::ConfigDefault
            words = Words.instance_methods(false)
            kept = ::Puma::DSL.instance_methods(false) - Words::OURS - Words::HOOK_NAMES
            (words - kept).each { |name| define_method(name, Words.instance_method(name)) }
            %i[escape later].each do |name|
              define_method(name, Words.instance_method(name))
              private name
            end

            def self.new_for(_record, reading)
              config = ByPuma.configuration(reading.environment)
              options = config.respond_to?(:_options) ? config._options : config.options
              # Puma 7 answers only after a step that comes when the file has been read.
              config.define_singleton_method(:options) { options }
              new(options.file_options, config)
            end
          end
        end

        def configuration(environment)
          ::Puma::Configuration.new({}, environment ? { environment: environment } : {})
        rescue ArgumentError, LoadError
          before = NUMBERS.to_h { |name| [name, ENV.delete(name)] }
          begin
            ::Puma::Configuration.new({}, environment ? { environment: environment } : {})
          ensure
            ENV.update(before)
          end
        end
      end

      # The parts of Puma that a file may name where there is no Puma.
      module Stub
        module Const
          PUMA_VERSION = VERSION = "8.0.0"
          CODE_NAME = ""
          PERSISTENT_TIMEOUT = 65
          FIRST_DATA_TIMEOUT = 30
          UNSPECIFIED_IPV4 = "0.0.0.0"
          UNSPECIFIED_IPV6 = "::"
          SUPPORTED_HTTP_METHODS = %w[HEAD GET POST PUT DELETE OPTIONS TRACE PATCH].freeze
          IANA_HTTP_METHODS = (SUPPORTED_HTTP_METHODS + %w[
            ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT CONNECT COPY LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF
            MKWORKSPACE MOVE ORDERPATCH PRI PROPFIND PROPPATCH REBIND REPORT SEARCH UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE
            UPDATEREDIRECTREF VERSION-CONTROL
          ]).freeze
        end

        module ConfigDefault
          DefaultRackup = "config.ru"
          DefaultTCPHost = "0.0.0.0"
          DefaultTCPPort = 9292
          DefaultWorkerCheckInterval = 5
          DefaultWorkerTimeout = 60
          DefaultWorkerShutdownTimeout = 30
        end

        # Answers what a file may ask @config.
        class Configuration
          include ConfigDefault

          DEFAULTS = {
            environment: "development", binds: ["tcp://0.0.0.0:9292"].freeze, min_threads: 0, max_threads: 5, workers: 0, tcp_host: "0.0.0.0",
            tcp_port: 9292, rackup: "config.ru", worker_timeout: 60, worker_boot_timeout: 60, worker_shutdown_timeout: 30,
            persistent_timeout: 65, first_data_timeout: 30, log_requests: false, preload_app: true, remote_address: :socket
          }.freeze

          Options = Struct.new(:file_options, :default_options) do
            def [](key) = fetch(key)

            def []=(key, value)
              file_options[key] = value
            end

            def fetch(key, default = nil)
              file_options.fetch(key) { default_options.fetch(key, default) }
            end

            def user_options = {}

            def final_options = default_options.merge(file_options)

            def key?(key) = file_options.key?(key) || default_options.key?(key)

            def all_of(key) = [*file_options[key], *default_options[key]]
          end

          attr_reader :options, :hooks
          alias _options options

          def initialize(file_options, environment)
            @hooks = {}
            @options = Options.new(file_options, DEFAULTS.merge({ environment: environment }.compact))
          end

          def self.default_tcp_host = "0.0.0.0"
          def environment = @options[:environment]
          def rackup = @options[:rackup]
          def load = @options
          def clamp = @options
        end

        # What a plugin would do beside a server is not done.
        class Plugin
          def self.create = nil
        end

        module_function

        def mri? = true
        def jruby? = false
        def windows? = false
        def osx? = false
        def linux? = true
        def forkable? = true
        def ssl? = true
        def stats = "{}"
        def stats_hash = {}
        def cli_config = nil
      end

      # Ours.
      class Own
        include Words
        include Stub::ConfigDefault
        extend Constants

        Puma = Stub
        Stub.const_set(:DSL, self)

        def self.new_for(_record, reading)
          new(reading)
        end

        def initialize(reading)
          @options = {}
          @config = Stub::Configuration.new(@options, reading.environment)
        end
      end
    end
  end
end
