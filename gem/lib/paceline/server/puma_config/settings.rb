# frozen_string_literal: true

# What config/puma.rb said, as the front's own settings: their names and texts. Decides nothing that the front decides.
module Paceline
  module Server
    class PumaConfig
      class Settings
        FOREVER = 86_400
        VARIABLES = %w[APP_ENV RACK_ENV RAILS_ENV].freeze
        LEAST_KEEPALIVE = 0.01
        private_constant :FOREVER, :VARIABLES, :LEAST_KEEPALIVE

        # The environment that the process's variables name, in Puma's order; nil: none does.
        def self.named_by_variables
          VARIABLES.map { |name| ENV[name] }.find { |text| text && !text.empty? }
        end

        def initialize(config)
          @config = config
          @options = config.options
        end

        # [name, text], some names more than once.
        def pairs
          addresses + plain + threads + io_threads + times + outputs + @config.extras[:processes].map { |command| ["process", command] } +
            @config.notices.map { |text| ["notice", text] }
        end

        private

        # The first port without a host goes with the server's own address, as further ones do.
        def addresses
          ports = @config.extras[:ports]
          pairs = Array(@options[:binds]).uniq.map do |url|
            ports.include?(url) ? ["port", url[/\d+\z/]] : ["bind", moded(url.to_s)]
          end
          pairs << %w[proxy_protocol optional] if @options[:remote_address] == :proxy_protocol
          pairs
        end

        # Puma's `mode` of a Unix socket is the opposite of a umask.
        def moded(url)
          url.start_with?("unix:") ? url.sub(/([?&])mode=0?o?([0-7]{3})\b/) { "#{$1}umask=0#{(0o777 & ~$2.to_i(8)).to_s(8)}" } : url
        end

        def plain
          pairs = {
            "environment" => @options[:environment], "workers" => @options[:workers], "pidfile" => @options[:pidfile],
            "directory" => @options[:directory], "rackup" => @options[:rackup], "tag" => @options[:tag],
            "max_body" => @options[:http_content_length_limit]
          }.select { |_, value| value }.map { |name, value| [name, value.to_s] }.reject { |_, text| text.empty? }
          pairs << ["refork_after", @options[:fork_worker].to_s] if @options[:fork_worker].to_i.positive?
          pairs << %w[kind rack] if @options[:app]
          pairs + switches
        end

        def switches
          { "preload" => :preload_app, "log_requests" => :log_requests, "early_hints" => :early_hints, "buffer_requests" => :queue_requests }
            .filter_map { |name, key| [name, (@options[key] ? true : false).to_s] if @options.key?(key) && !@options[key].nil? }
        end

        def threads
          min, max = @options.values_at(:min_threads, :max_threads)
          return [] unless max
          [["threads", min.to_i.between?(2, max.to_i - 1) ? "#{min}:#{max}" : max.to_s]]
        end

        # Their threads are those of streams, of which one thread has none unless they are asked for.
        def io_threads
          most = @options[:max_io_threads].to_i
          most.positive? && (@options[:max_threads] == 1 || most > 50) ? [["stream_threads", most.to_s]] : []
        end

        def times
          forced = @options[:force_shutdown_after]
          forced = FOREVER if forced&.negative?
          { "start_timeout" => @options[:worker_boot_timeout], "shutdown_timeout" => forced || @options[:worker_shutdown_timeout],
            "keepalive_timeout" => @options[:persistent_timeout]&.clamp(LEAST_KEEPALIVE, FOREVER),
            "head_timeout" => @options[:first_data_timeout]&.clamp(LEAST_KEEPALIVE, FOREVER) }
            .compact.map { |name, seconds| [name, "#{(seconds * 1000).ceil}ms"] }
        end

        def outputs
          stdout, stderr = @options.values_at(:redirect_stdout, :redirect_stderr).map { |path| path.to_s.empty? ? nil : path.to_s }
          { "access_log" => stdout, "app_log" => stderr || stdout }.compact.to_a
        end
      end
    end
  end
end
