# frozen_string_literal: true

# One reading of config/puma.rb: by Puma's own DSL if the gem puma is in the bundle, otherwise by ours, with what is
# loaded when Puma reads it. Ends only where the file itself raises.
module Paceline
  module Server
    class PumaConfig
      class Reading
        # Puma reads the file in a process that has these.
        LIBRARIES = {
          Addrinfo: "socket", Benchmark: "benchmark", Date: "date", DateTime: "date", Digest: "digest", ERB: "erb", Etc: "etc",
          FileUtils: "fileutils", IPAddr: "ipaddr", JSON: "json", Logger: "logger", Monitor: "monitor", Net: "net/http", Open3: "open3",
          OpenSSL: "openssl", OpenStruct: "ostruct", OptionParser: "optparse", Pathname: "pathname", SecureRandom: "securerandom",
          Set: "set", Shellwords: "shellwords", Singleton: "singleton", StringIO: "stringio", Tempfile: "tempfile", Timeout: "timeout",
          YAML: "yaml"
        }.freeze
        # Those of the standard library of which a part is loaded already, and which add methods to it.
        PARTS = %w[socket time tmpdir uri].freeze
        # Of the bundle, if they are in it.
        OF_BUNDLE = { Concurrent: ["concurrent-ruby", "concurrent"] }.freeze
        # Plugins that are not loaded: what they do is done otherwise here.
        BUILT_IN = %w[tmp_restart solid_queue].freeze
        private_constant :LIBRARIES, :PARTS, :OF_BUNDLE, :BUILT_IN

        attr_reader :environment

        def initialize(record, environment: nil, workers: nil)
          @record = record
          @environment = environment
          @workers = workers
          @later = { single: [], cluster: [] }
          @plugins = []
          @dsl = Dsl.build(record, self)
        end

        def options
          @dsl.instance_variable_get(:@options)
        end

        def evaluate(path)
          outermost = !@reading
          @reading = true
          lend_libraries if outermost
          @dsl.instance_eval(File.read(path, encoding: Encoding::UTF_8), path.to_s, 1)
          finish if outermost
        end

        def later(mode, block)
          @later[mode] << block
        end

        def plugin(name)
          case name
          when "tmp_restart" then nil
          when "solid_queue" then @solid_queue = true
          else @plugins << name
          end
        end

        private

        # Named constants are loaded when the file, or a block of it, first asks for them.
        def lend_libraries
          PARTS.each { |name| require name }
          LIBRARIES.each { |name, library| Object.autoload(name, library) unless Object.const_defined?(name, false) }
          OF_BUNDLE.each do |name, (gem, library)|
            Object.autoload(name, library) if Gem.loaded_specs.key?(gem) && !Object.const_defined?(name, false)
          end
        end

        def finish
          @plugins.each { |name| configure_by(name) }
          mode = (@workers || options[:workers] || ENV["WEB_CONCURRENCY"]).to_s.match?(/\A(?:0*|)\z/) ? :single : :cluster
          @later[mode].each(&:call)
          run_solid_queue if @solid_queue
        end

        # A plugin of a gem may set something, as puma-heroku does. What it would run beside the server it has no server for.
        def configure_by(name)
          plugin = load_plugin(name)
          plugin.config(@dsl) if plugin.respond_to?(:config)
          return if plugin && !plugin.respond_to?(:start)
          @record.notice("plugin :#{name} is ignored: #{Instead::PLUGINS.fetch(name, "it runs inside Puma; run it beside the workers with [[process]] in paceline.toml, or in before_worker_boot")}")
        end

        def load_plugin(name)
          return unless Dsl.pumas_own?
          found = ::Puma::Plugins.find(name)
          found.new
        rescue LoadError, StandardError
          nil
        end

        # The queue's own program, as `rails new` writes it, or its task.
        def run_solid_queue
          command = File.executable?("bin/jobs") ? "bin/jobs" : "bundle exec rake solid_queue:start"
          @record.extras[:processes] << command
          @record.notice("plugin :solid_queue: the queue runs beside the workers, as a process of the application (#{command})")
        end
      end
    end
  end
end
