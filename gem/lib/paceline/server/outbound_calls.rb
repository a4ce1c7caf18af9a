# frozen_string_literal: true

# What the request in hand spends on calls to other servers, for the front's log, and how long they may take. Costs nothing in an application that
# speaks no TLS. It never makes a call.
module Paceline
  module Server
    class OutboundCalls
      # So much earlier than the request itself is given up (s), so that there is time left to say so.
      MARGIN = 0.25
      private_constant :MARGIN

      # `patience`: seconds that a request may take (app_hard_timeout), or nil.
      def initialize(patience)
        @patience = patience && [patience - MARGIN, patience * 0.9].max
      end

      # A request begins.
      def start(env)
        unless @counted
          return unless defined?(::OpenSSL::SSL::SSLSocket)

          require_relative "../http/counting"
          @counted = true
        end
        HTTP::Account.open
        HTTP.trace(env["HTTP_TRACEPARENT"], env["HTTP_TRACESTATE"]) if HTTP.respond_to?(:trace)
        Thread.current.thread_variable_set(:paceline_exchange, env["HTTP_X_REQUEST_ID"]) if ENV["PACELINE_EGRESS_CANCEL"]
        HTTP::Deadline.current = Process.clock_gettime(Process::CLOCK_MONOTONIC) + @patience if @patience && defined?(HTTP::Deadline)
      end

      # What was counted, as spans of the worker protocol: {name => [microseconds, count]}; nil if there was nothing.
      def spans
        account = @counted && HTTP::Account.current or return
        return if account.calls.zero? && account.new_connections.zero?

        spans = {}
        if account.calls.positive?
          spans["outbound"] = [account.milliseconds * 1000, account.calls]
          spans["outbound_new"] = [0, account.new_connections]
        end
        account.hosts.each do |name, host|
          next if host.own.zero?

          kind = host.handshakes.zero? ? "tcp" : "tls"
          spans["connect:#{kind}:#{name}"] = [host.own_milliseconds * 1000, host.own]
        end
        spans
      end
    end
  end
end
