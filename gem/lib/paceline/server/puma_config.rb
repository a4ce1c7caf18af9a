# frozen_string_literal: true

# Evaluates Puma's configuration file: keeps the settings that have a meaning here, what to write instead of those that
# have none, and the hooks to run later. Never starts or listens to anything, never loads the app by itself.
require_relative "puma_config/instead"
require_relative "puma_config/remote_address"
require_relative "puma_config/certificates"
require_relative "puma_config/words"
require_relative "puma_config/dsl"
require_relative "puma_config/reading"
require_relative "puma_config/settings"

module Paceline
  module Server
    class PumaConfig
      # Puma's options as the file left them, by Puma's own keys.
      attr_reader :options

      # Lines that say what is otherwise than with Puma, and what to do about it.
      attr_reader :notices

      # What the file said that Puma's options have no place for.
      attr_reader :extras

      # Raises what the file raises, with the file's own lines in the backtrace. `given`: the environment and the number of
      # workers, if flags or variables name them.
      def self.load(path, environment = nil, workers: nil)
        new(environment: environment, workers: workers).tap { |config| config.read(path) }
      end

      def initialize(environment: nil, workers: nil)
        @environment = environment.to_s.empty? ? nil : environment.to_s
        @workers = workers.to_s.empty? ? nil : workers
        @notices = []
        @extras = { ports: [], processes: [] }
        @hooks = Hash.new { |hooks, name| hooks[name] = [] }
        @data = Hash.new { |data, key| data[key] = {} }
      end

      def read(path)
        named = Settings.named_by_variables
        reading = Reading.new(self, environment: @environment, workers: @workers)
        reading.evaluate(path)
        @options = reading.options
        @options[:environment] ||= Settings.named_by_variables unless named || @environment
      end

      # Pairs of what the front is to know: names of its own settings, `directory`, and `notice`.
      def settings
        Settings.new(self).pairs
      end

      def notice(text)
        @notices |= [text]
      end

      # A single process serves, as far as the file goes: Puma without workers.
      def single?
        @options[:workers].to_s == "0" || !@options.key?(:workers)
      end

      # The application, if the file itself is one (`app`).
      def app = @options[:app]

      def lowlevel_error_handler = @options[:lowlevel_error_handler]

      def rack_url_scheme = @options[:rack_url_scheme]

      # How REMOTE_ADDR is set; nil: as the front has set it.
      def remote_address
        @remote_address = RemoteAddress.of(@options) unless defined?(@remote_address)
        @remote_address
      end

      def add_hook(name, key, block)
        raise ArgumentError, "expected #{name} to be given a block" unless block
        @hooks[name] << [block, key]
      end

      def hook?(name)
        !@hooks.fetch(name, []).empty?
      end

      # Runs the hooks in the order of the file, old names (on_worker_boot) under the new (before_worker_boot). What a
      # hook raises is raised. A hook with a key is also given the Hash that all hooks of that key share.
      def run_hooks(name, *args)
        name = Words::OLD_NAMES.fetch(name, name)
        @hooks.fetch(name, []).each { |block, key| key ? block.call(*args, @data[key]) : block.call(*args) }
        ForkedChild.leave if defined?(ForkedChild) && ForkedChild.here?
      end

      # Runs hooks that nothing depends on: an error in one is printed, and ends nothing. LoadError is a ScriptError.
      def run_hooks_aside(name, *args)
        run_hooks(name, *args)
      rescue StandardError, ScriptError => e
        warn "paceline: #{name}: #{e.class}: #{e.message}", *e.backtrace.first(10)
      end
    end
  end
end
