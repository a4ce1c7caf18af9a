# frozen_string_literal: true

# `require "paceline/http/faraday"`: Faraday's adapter `:paceline`. It is Faraday's own for Net::HTTP, options, errors and streaming included, with
# sessions that ride; and requests within `in_parallel` are made at once. Faraday 1.1 and newer.
require "faraday"
require_relative "../http"
# Faraday 1 has it, Faraday 2 depends on a gem that has.
require "faraday/net_http" unless Faraday::Adapter.const_defined?(:NetHttp)

module Paceline
  module HTTP
    class FaradayAdapter < ::Faraday::Adapter::NetHttp
      # Collects what is asked for within `in_parallel`, and makes all of it at its end.
      class Together
        AT_ONCE = 32
        private_constant :AT_ONCE

        def initialize
          @jobs = []
        end

        def add(&job)
          @jobs << job
        end

        # Yields, and makes the calls. If calls have failed, the others are finished, and the first one's error is raised.
        def execute
          yield
          run
        ensure
          @jobs.clear
        end

        def run
          jobs = @jobs.dup
          @jobs.clear
          errors = Array.new(jobs.size)
          guarded = jobs.each_with_index.map do |job, number|
            lambda do
              job.call
            rescue StandardError => e
              errors[number] = e
            end
          end
          account = Account.current
          account ? account.during { HTTP::Together.run(guarded, AT_ONCE) } : HTTP::Together.run(guarded, AT_ONCE)
          error = errors.compact.first
          raise error if error
        end
      end

      self.supports_parallel = true

      def self.setup_parallel_manager(_options = nil)
        Together.new
      end

      def call(env)
        return super unless env.parallel? && env.parallel_manager.is_a?(Together)

        # What every adapter does first; the rest of the call is for later.
        response = ::Faraday::Adapter.instance_method(:call).bind_call(self, env)
        alone = method(:call).super_method
        env.parallel_manager.add do
          alone.call(env)
          env.response = response.finish(env)
        end
        response
      end

      private

      def net_http_connection(env)
        url, proxy = env[:url], env[:request][:proxy]
        port = url.port || (url.scheme == "https" ? 443 : 80)
        kind = Session.now
        if proxy then through(kind, url.hostname, port, proxy)
        # Faraday 1 leaves the environment's proxy to Net::HTTP, too.
        elsif ::Faraday::VERSION.start_with?("1.") then kind.new(url.hostname, port)
        else kind.new(url.hostname, port, nil)
        end
      end

      # TLS to the proxy itself is net-http 0.5's, and faraday-net_http's as of 3.4.
      def through(kind, host, port, proxy)
        tls = [nil, true] if proxy[:uri].scheme == "https" && kind.respond_to?(:proxy_use_ssl)
        kind.new(host, port, proxy[:uri].hostname, proxy[:uri].port, proxy[:user], proxy[:password], *tls)
      end

      # Nobody has to read the system's certificates for each Faraday::Connection.
      def ssl_cert_store(ssl)
        ssl[:cert_store] || OpenSSL::SSL::SSLContext::DEFAULT_CERT_STORE
      end
    end
  end
end

Faraday::Adapter.register_middleware(paceline: Paceline::HTTP::FaradayAdapter)
