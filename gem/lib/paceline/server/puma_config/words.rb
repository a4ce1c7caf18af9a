# frozen_string_literal: true

# The words of config/puma.rb, of Puma 5 to 8, with the meaning that Puma gives them: each leaves in @options what Puma's
# own would leave there. Never acts on what it is told.
module Paceline
  module Server
    class PumaConfig
      module Words
        # Where a word of the bundle's own Puma is passed over in favour of ours: it would raise here, or not say enough.
        OURS = %i[
          inspect load inject get plugin port bind ssl_bind threads workers max_io_threads fork_worker single cluster
          set_remote_address solid_queue_mode stdout_redirect worker_culling_strategy supported_http_methods
          bind_to_activated_sockets rackup shutdown_debug
        ].freeze

        # Blocks that the preloader and the workers run.
        HOOKS = %i[
          before_fork before_worker_boot before_worker_shutdown before_worker_fork after_worker_fork
          before_thread_start before_thread_exit before_refork after_refork after_booted after_stopped
          after_worker_shutdown out_of_band
        ].freeze
        OLD_NAMES = {
          on_worker_boot: :before_worker_boot, on_worker_shutdown: :before_worker_shutdown,
          on_worker_fork: :before_worker_fork, after_worker_boot: :after_worker_fork, on_restart: :before_restart,
          on_booted: :after_booted, on_stopped: :after_stopped, on_refork: :before_refork,
          on_thread_start: :before_thread_start, on_thread_exit: :before_thread_exit
        }.freeze

        # Words that only leave a value, by their option. Booleans: without an argument they are true.
        VALUES = {
          activate_control_app: :control_url, custom_logger: :custom_logger, directory: :directory, environment: :environment,
          extra_runtime_dependencies: :extra_runtime_dependencies, http_content_length_limit: :http_content_length_limit,
          io_selector_backend: :io_selector_backend, max_fast_inline: :max_fast_inline, max_keep_alive: :max_keep_alive,
          pidfile: :pidfile, rack_url_scheme: :rack_url_scheme, restart_command: :restart_cmd, state_path: :state,
          state_permission: :state_permission, tag: :tag, worker_culling_strategy: :worker_culling_strategy,
          supported_http_methods: :supported_http_methods
        }.freeze
        NUMBERS = {
          first_data_timeout: :first_data_timeout, idle_timeout: :idle_timeout, persistent_timeout: :persistent_timeout,
          worker_boot_timeout: :worker_boot_timeout, worker_check_interval: :worker_check_interval,
          worker_shutdown_timeout: :worker_shutdown_timeout, worker_timeout: :worker_timeout
        }.freeze
        SWITCHES = {
          bind_to_activated_sockets: :bind_to_activated_sockets, clean_thread_locals: :clean_thread_locals, debug: :debug,
          drain_on_shutdown: :drain_on_shutdown, early_hints: :early_hints, enable_keep_alives: :enable_keep_alives,
          fiber_per_request: :fiber_per_request, log_requests: :log_requests,
          mutate_stdout_and_stderr_to_sync_on_write: :mutate_stdout_and_stderr_to_sync_on_write, nakayoshi_fork: :nakayoshi_fork,
          preload_app!: :preload_app, prune_bundler: :prune_bundler, queue_requests: :queue_requests,
          raise_exception_on_sigterm: :raise_exception_on_sigterm, silence_fork_callback_warning: :silence_fork_callback_warning,
          silence_single_worker_warning: :silence_single_worker_warning, tcp_mode!: :tcp_mode, allow_underscore_headers: :allow_underscore_headers
        }.freeze

        VALUES.each { |name, key| define_method(name) { |value = nil, *| @options[key] = value } }
        NUMBERS.each { |name, key| define_method(name) { |seconds| @options[key] = Integer(seconds) } }
        SWITCHES.each { |name, key| define_method(name) { |value = true| @options[key] = value } }

        def inspect
          "Puma's configuration"
        end

        # Puma reads further files after the first; nobody depends on it.
        def load(path)
          @reading.evaluate(File.expand_path(path))
        end

        def inject(&block)
          instance_eval(&block)
        end

        def get(key, default = nil)
          @options[key.to_sym] || (key.to_sym == :environment ? @reading.environment : nil) || default
        end

        def default_host
          @options[:default_host] || "0.0.0.0"
        end

        def set_default_host(host)
          @options[:default_host] = host
        end

        def bind(url)
          @options[:binds] = (@options[:binds] || []) + [url.to_s]
        end

        def clear_binds!
          @record.extras[:ports].clear
          @options[:binds] = []
        end

        # Without a host it listens where the server does that is told no more than a port.
        def port(port, host = nil)
          port = Integer(port)
          host ||= @options[:default_host]
          host = host.to_s
          url = "tcp://#{host.include?(":") && !host.start_with?("[") ? "[#{host}]" : host}:#{port}"
          @record.extras[:ports] << url if host.empty?
          bind(url)
        end

        def ssl_bind(host, port, options = {})
          options = Certificates.files(options)
          query = options.map { |name, value| "#{name}=#{escape(value)}" }.join("&")
          host = "[#{host}]" if host.to_s.include?(":") && !host.to_s.start_with?("[")
          bind("ssl://#{host}:#{port}#{"?#{query}" unless query.empty?}")
        end

        def threads(min, max = min)
          min, max = Integer(min), Integer(max)
          raise ArgumentError, "threads: the minimum (#{min}) is above the maximum (#{max})" if min > max
          raise ArgumentError, "threads: the maximum (#{max}) must be at least 1" if max < 1
          @options[:min_threads] = min
          @options[:max_threads] = max
        end

        def max_io_threads(count)
          @options[:max_io_threads] = Integer(count)
        end

        # 0 and nothing: as Puma's single mode. `auto`: one for each processor.
        def workers(count)
          count = count.to_i if count.is_a?(Numeric)
          text = count.to_s.strip
          @options[:workers] = text == "auto" ? :auto : Integer(text.empty? ? "0" : text, 10)
        end

        def fork_worker(after_requests = 1000)
          @options[:fork_worker] = Integer(after_requests)
        end

        # The first that names one counts.
        def rackup(path)
          @options[:rackup] ||= path.to_s
        end

        def quiet(which = true)
          @options[:log_requests] = !which
        end

        def stdout_redirect(stdout = nil, stderr = nil, append = false)
          @options[:redirect_stdout] = stdout
          @options[:redirect_stderr] = stderr
          @options[:redirect_append] = append
        end

        def force_shutdown_after(seconds = :forever)
          @options[:force_shutdown_after] = { forever: -1, immediately: 0 }.fetch(seconds) { Float(seconds) }
        end

        def wait_for_less_busy_worker(seconds = 0.005)
          @options[:wait_for_less_busy_worker] = seconds.to_f
        end

        def shutdown_debug(value = true, **)
          @options[:shutdown_debug] = value
        end

        def log_formatter(&block)
          @options[:log_formatter] = block
        end

        def app(object = nil, &block)
          @options[:app] = object || block || raise(ArgumentError, "app: give an object that responds to call, or a block")
        end

        def lowlevel_error_handler(object = nil, &block)
          handler = object || block || raise(ArgumentError, "lowlevel_error_handler: give an object that responds to call, or a block")
          @options[:lowlevel_error_handler] = handler
        end

        def set_remote_address(value = :socket)
          @options.update(RemoteAddress.options(value))
        end

        # Run once the whole file is read, as it is known then whether there are workers.
        def single(&block)
          later(:single, block)
        end

        def cluster(&block)
          later(:cluster, block)
        end

        def plugin(name)
          @reading.plugin(name.to_s)
        end

        # A word of the plugin :solid_queue: where its queue runs.
        def solid_queue_mode(mode = :fork)
          @options[:solid_queue_mode] = mode.to_sym
        end

        def before_restart(&block)
          raise ArgumentError, "expected before_restart to be given a block" unless block
        end

        HOOKS.each { |name| define_method(name) { |key = nil, &block| @record.add_hook(name, key, block) } }
        OLD_NAMES.each { |old, name| alias_method(old, name) }
        HOOK_NAMES = (HOOKS + OLD_NAMES.to_a.flatten).uniq.freeze

        private

        def escape(value)
          value.to_s.gsub(/[^\w.\/-]/n) { |byte| format("%%%02X", byte.ord) }
        end

        def later(mode, block)
          raise ArgumentError, "#{mode}: give a block" unless block
          @reading.later(mode, block)
        end

        # These two are none of the file's, but Puma's own have these names and a file may call them with `send`.
        def add_pem_values_to_options_store(*) = nil

        def warn_if_in_single_mode(*) = nil
      end
    end
  end
end
