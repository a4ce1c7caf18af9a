# frozen_string_literal: true

# Evaluates Puma's configuration file: keeps the settings that have a meaning here, the names of those that have none,
# and the hooks to run later. As a script (`ruby puma_config.rb --dump PATH ENV`) it prints the settings for the front,
# which holds a copy of this file, so it requires no other. Never starts or listens to anything, never loads the app.
module Paceline
  module Server
    class PumaConfig
      # Hooks that the preloader and the workers run.
      HOOKS = %i[
        before_fork before_worker_boot before_worker_shutdown before_worker_fork after_worker_fork
        before_thread_start before_thread_exit before_refork after_refork
      ].freeze

      # Hooks of a life cycle that is not this server's: nothing runs them.
      FOREIGN_HOOKS = %i[
        before_restart after_booted after_stopped after_worker_shutdown out_of_band
      ].freeze

      OLD_NAMES = {
        on_worker_boot: :before_worker_boot, on_worker_shutdown: :before_worker_shutdown,
        on_worker_fork: :before_worker_fork, after_worker_boot: :after_worker_fork, on_restart: :before_restart,
        on_booted: :after_booted, on_stopped: :after_stopped, on_refork: :before_refork,
        on_thread_start: :before_thread_start, on_thread_exit: :before_thread_exit
      }.freeze

      # What these ask for is so here anyway, or needs no asking.
      GRANTED = %i[
        bind_to_activated_sockets drain_on_shutdown enable_keep_alives max_fast_inline max_keep_alive
        mutate_stdout_and_stderr_to_sync_on_write raise_exception_on_sigterm silence_fork_callback_warning
        silence_single_worker_warning wait_for_less_busy_worker worker_check_interval worker_timeout
      ].freeze

      WITHOUT_MEANING = %i[
        activate_control_app add_pem_values_to_options_store allow_underscore_headers app clean_thread_locals
        custom_logger debug extra_runtime_dependencies fiber_per_request first_data_timeout idle_timeout
        io_selector_backend log_formatter lowlevel_error_handler max_io_threads nakayoshi_fork persistent_timeout
        prune_bundler rack_url_scheme restart_command set_remote_address shutdown_debug single state_path
        state_permission supported_http_methods tcp_mode! worker_culling_strategy
      ].freeze

      PLUGINS = %i[tmp_restart].freeze

      attr_reader :settings, :ignored

      # Raises what the file raises, with the file's own lines in the backtrace.
      def self.load(path, environment = nil)
        new.tap { |config| DSL.new(config, environment).evaluate(path) }
      end

      def initialize
        @settings = {}
        @ignored = []
        @hooks = Hash.new { |hooks, name| hooks[name] = [] }
        @data = Hash.new { |data, key| data[key] = {} }
      end

      def ignore(name)
        @ignored |= [name.to_s]
      end

      def add_hook(name, key, block)
        raise ArgumentError, "expected #{name} to be given a block" unless block
        @hooks[name] << [block, key]
        ignore(name) if FOREIGN_HOOKS.include?(name)
      end

      # Runs the hooks in the order of the file, old names (on_worker_boot) under the new (before_worker_boot). What a
      # hook raises is raised. A hook with a key is also given the Hash that all hooks of that key share.
      def run_hooks(name, *args)
        name = OLD_NAMES.fetch(name, name)
        @hooks.fetch(name, []).each { |block, key| key ? block.call(*args, @data[key]) : block.call(*args) }
        ForkedChild.leave if defined?(ForkedChild) && ForkedChild.here?
      end

      # The words of the configuration file.
      class DSL
        FOREVER = 86_400

        def initialize(config, environment)
          @config = config
          @settings = config.settings
          @environment = environment.to_s.empty? ? nil : environment
        end

        def evaluate(path)
          instance_eval(File.read(path, encoding: Encoding::UTF_8), path.to_s, 1)
        end

        def inspect
          "Puma's configuration"
        end

        # Puma reads further files after the first; nobody depends on it.
        def load(path)
          evaluate(File.expand_path(path))
        end

        def inject(&block)
          instance_eval(&block)
        end

        def cluster(&block)
          instance_eval(&block)
        end

        def get(key, default = nil)
          key == :environment ? @settings.fetch(:environment, @environment || default) : @settings.fetch(key, default)
        end

        def default_host
          @default_host || "127.0.0.1"
        end

        def set_default_host(host)
          @default_host = host
        end

        def bind(url)
          (@settings[:bind] ||= []) << url.to_s
        end

        def clear_binds!
          @settings.delete(:bind)
          @settings.delete(:port)
        end

        def ssl_bind(host, port, options = {})
          query = options.map { |name, value| "#{name}=#{escape(value)}" }.join("&")
          bind("ssl://#{host}:#{port}#{"?#{query}" unless query.empty?}")
        end

        def port(port, host = @default_host)
          port = Integer(port)
          return bind("tcp://#{host.include?(":") && !host.start_with?("[") ? "[#{host}]" : host}:#{port}") if host
          return bind("tcp://127.0.0.1:#{port}") if @settings.key?(:port)
          @settings[:port] = port
        end

        def environment(name)
          @settings[:environment] = name.to_s
        end

        def threads(min, max = min)
          min, max = Integer(min), Integer(max)
          raise ArgumentError, "threads: the minimum (#{min}) is above the maximum (#{max})" if min > max
          raise ArgumentError, "threads: the maximum (#{max}) must be at least 1" if max < 1
          @settings[:threads] = min.between?(2, max - 1) ? "#{min}:#{max}" : max
        end

        def workers(count)
          count = count.to_s.strip
          return if count.empty?
          @settings[:workers] = count == "auto" ? count : Integer(count, 10)
        end

        # 0 is a fork by a signal alone, which is not there.
        def fork_worker(after_requests = 1000)
          requests = Integer(after_requests)
          requests.positive? ? @settings[:refork_after] = requests : @config.ignore(:fork_worker)
        end

        def pidfile(path)
          @settings[:pidfile] = path.to_s
        end

        def directory(dir)
          @settings[:directory] = dir.to_s
        end

        def rackup(path)
          @settings[:rackup] ||= path.to_s
        end

        def tag(text)
          @settings[:tag] = text.to_s
        end

        def preload_app!(answer = true)
          @settings[:preload] = answer ? true : false
        end

        def quiet(which = true)
          @settings[:log_requests] = !which
        end

        def log_requests(which = true)
          @settings[:log_requests] = which ? true : false
        end

        def early_hints(answer = true)
          @settings[:early_hints] = answer ? true : false
        end

        def queue_requests(answer = true)
          @settings[:buffer_requests] = answer ? true : false
        end

        def stdout_redirect(stdout = nil, stderr = nil, _append = false)
          @settings[:access_log] = stdout.to_s if stdout
          @settings[:app_log] = (stderr || stdout).to_s if stderr || stdout
        end

        def worker_boot_timeout(seconds)
          @settings[:start_timeout] = "#{(Float(seconds) * 1000).ceil}ms"
        end

        def worker_shutdown_timeout(seconds)
          @settings[:shutdown_timeout] = "#{(Float(seconds) * 1000).ceil}ms"
        end

        def force_shutdown_after(seconds = :forever)
          seconds = { forever: FOREVER, immediately: 0 }.fetch(seconds, seconds)
          seconds = Float(seconds)
          worker_shutdown_timeout(seconds.negative? ? FOREVER : seconds)
        end

        def http_content_length_limit(bytes)
          @settings[:max_body] = Integer(bytes) if bytes
        end

        def plugin(name)
          @config.ignore("plugin :#{name}") unless PLUGINS.include?(name.to_sym)
        end

        def escape(value)
          value.to_s.gsub(/[^\w.\/-]/n) { |byte| format("%%%02X", byte.ord) }
        end
        private :escape

        (HOOKS + FOREIGN_HOOKS).each do |name|
          define_method(name) { |key = nil, &block| @config.add_hook(name, key, block) }
        end

        OLD_NAMES.each { |old, name| alias_method(old, name) }

        GRANTED.each { |name| define_method(name) { |*, **| nil } }

        WITHOUT_MEANING.each do |name|
          define_method(name) do |*, **, &_block|
            @config.ignore(name)
            nil
          end
        end
      end

      # Prints `key<TAB>value` lines and a NUL, or one line that says what is wrong and where.
      class Dump
        ESCAPES = { "\\" => "\\\\", "\n" => "\\n", "\r" => "\\r", "\t" => "\\t" }.freeze

        def initialize(path, environment)
          @path = path
          @environment = environment
        end

        # Returns the exit status.
        def run
          out = $stdout.dup
          $stdout.reopen($stderr) # what the file prints is not part of the answer
          lines(load).each { |key, value| out.write("#{key}\t#{value.to_s.gsub(/[\\\n\r\t]/, ESCAPES)}\n") }
          out.write("\0") # nothing is missing
          out.flush
          0
        rescue Exception => e # a file may raise anything, `exit` and syntax errors among it
          $stderr.write("\n\0#{place(e)}#{words(e)}\n")
          1
        end

        private

        # Files that require gems mostly get by without; the bundle is set up only for those that do not.
        def load
          PumaConfig.load(@path, @environment)
        rescue LoadError, NameError => e
          raise if defined?(::Bundler) || !gemfile? || (e.is_a?(NameError) && e.receiver.is_a?(DSL))
          begin
            require "bundler/setup"
          rescue LoadError, StandardError
            raise e
          end
          PumaConfig.load(@path, @environment)
        end

        def gemfile?
          ENV.key?("BUNDLE_GEMFILE") || File.file?("Gemfile")
        end

        def lines(config)
          settings = config.settings.flat_map { |key, value| Array(value).map { |one| [key, one] } }
          settings + config.ignored.map { |name| [:ignored, name] }
        end

        def place(error)
          return "" if error.is_a?(SyntaxError)
          frame = error.backtrace_locations&.find { |location| location.path == @path }
          frame ? "#{@path}:#{frame.lineno}: " : "#{@path}: "
        end

        def words(error)
          case error
          when SyntaxError then error.message.lines.first(4).map(&:strip).reject(&:empty?).join(" ")
          when SystemExit then "the file ends the program (exit)"
          when NameError
            return "unknown setting #{error.name}" if error.receiver.is_a?(DSL)
            first_line(error)
          else first_line(error)
          end
        rescue ArgumentError # a NameError without a receiver
          first_line(error)
        end

        def first_line(error)
          "#{error.message.lines.first.to_s.strip} (#{error.class})"
        end
      end
    end
  end
end

if $PROGRAM_NAME == __FILE__ && ARGV.first == "--dump"
  status = Paceline::Server::PumaConfig::Dump.new(ARGV[1], ARGV[2]).run
  exit!(status)
end
