# frozen_string_literal: true

# The words of config/puma.rb that do nothing here, each with what to do instead: the server says so at its start. Those
# that are left out need no word, since what they ask for is so here anyway. Never ends a start.
module Paceline
  module Server
    class PumaConfig
      module Instead
        TEXTS = {
          activate_control_app: "`paceline status`, `paceline restart` and `paceline stop` need no control app; for one over HTTP set control_url in paceline.toml",
          allow_underscore_headers: "header fields with an underscore in their name are not passed on; rename them in the proxy",
          before_restart: "a restart starts a new process beside this one; close what has to be closed in before_worker_shutdown or after_stopped",
          clean_thread_locals: "thread locals stay from one request to the next; use ActiveSupport::CurrentAttributes or RequestStore for what belongs to a request",
          custom_logger: "set access_log and log_format in paceline.toml",
          debug: "see `paceline requests` and the log",
          enable_keep_alives: "connections are kept; set keepalive_timeout = \"10ms\" in paceline.toml to close them after a response",
          extra_runtime_dependencies: "each start loads the bundle anew; remove it",
          fiber_per_request: "a request has no fiber of its own; use ActiveSupport::CurrentAttributes or RequestStore for what belongs to a request",
          fork_worker: "a fork by a signal is not supported; name a number of requests (fork_worker 1000)",
          idle_timeout: "the server does not end by itself; set on_demand = true in paceline.toml to start the application with its first request",
          io_selector_backend: "the server waits for connections in its own way; remove it",
          log_formatter: "set log_format = \"json\" or access_log_format in paceline.toml",
          nakayoshi_fork: "set compact = true in paceline.toml to compact the heap before the fork",
          prune_bundler: "each restart loads the new bundle; remove it",
          restart_command: "`paceline restart` loads the new code, `paceline upgrade` replaces the server; remove it",
          shutdown_debug: "requests that are too slow are logged with their backtrace; see app_soft_timeout in paceline.toml",
          state_path: "pumactl has no meaning here: use `paceline status`, `paceline restart` and `paceline stop`",
          state_permission: "there is no state file; remove it",
          supported_http_methods: "all methods reach the application; refuse some in its routes or middleware",
          tcp_mode!: "only HTTP is served",
          worker_culling_strategy: "the workers with the highest numbers end first; remove it"
        }.freeze

        # Words that do less here than with Puma, though as much as most files want.
        PARTLY = {
          lowlevel_error_handler: "it answers what the application raises; what the server refuses by itself does not reach it"
        }.freeze

        # What is no difference, though the word has one.
        HARMLESS = {
          allow_underscore_headers: ->(value = true) { !value },
          clean_thread_locals: ->(value = true) { !value },
          enable_keep_alives: ->(value = true) { value },
          fiber_per_request: ->(value = true) { !value },
          fork_worker: ->(requests = 1000) { Integer(requests).positive? },
          nakayoshi_fork: ->(value = true) { !value },
          prune_bundler: ->(value = true) { !value },
          shutdown_debug: ->(value = true, **) { !value },
          supported_http_methods: ->(methods = :any) { methods == :any || methods.size > 30 }
        }.freeze

        PLUGINS = {
          "heroku" => "set WEB_CONCURRENCY, RAILS_MAX_THREADS and HOST=0.0.0.0",
          "systemd" => "Type=notify and the watchdog work without it; remove it",
          "tailwindcss" => "run it beside the workers: [[process]] command = \"bin/rails tailwindcss:watch[always]\" in paceline.toml",
          "yabeda" => "the server has its own metrics (docs/monitoring.md); call Yabeda.configure! in before_worker_boot",
          "yabeda_prometheus" => "the server has its own metrics (docs/monitoring.md)",
          "statsd" => "the server has its own metrics (docs/monitoring.md)",
          "delayed_stop" => "set shutdown_delay in paceline.toml"
        }.freeze

        # Notes each word as it is called, whoever then does what it says.
        def self.noting(record)
          Module.new do
            TEXTS.each do |name, text|
              define_method(name) do |*arguments, **named, &block|
                harmless = HARMLESS[name]
                record.notice("#{name} is ignored: #{text}") unless harmless&.call(*arguments, **named)
                named.empty? ? super(*arguments, &block) : super(*arguments, **named, &block)
              end
            end
            PARTLY.each do |name, text|
              define_method(name) do |*arguments, &block|
                record.notice("#{name}: #{text}")
                super(*arguments, &block)
              end
            end
            alias_method :on_restart, :before_restart
          end
        end
      end
    end
  end
end
