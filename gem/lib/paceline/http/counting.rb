# frozen_string_literal: true

# What one web request spends on outbound calls, by any client: Net::HTTP with or without warm connections, the front, and other clients as
# far as their TLS handshakes show. One account for each thread; without one nothing is counted. It logs nothing.
require "openssl"

module Paceline
  module HTTP
    class Account
      # What went to one host. `milliseconds`: of its calls one after another; `own`: connections that were opened by the application's own
      # clients and closed again, with `own_milliseconds` for opening them.
      Host = Struct.new(:calls, :new_connections, :handshakes, :milliseconds, :own, :own_milliseconds)

      class << self
        # The account of this thread, or nil.
        def current
          Thread.current.thread_variable_get(:paceline_account)
        end

        # From here on this thread's calls are counted, in the account that is returned.
        def open
          Handshakes.install
          Thread.current.thread_variable_set(:paceline_account, new)
          current
        end

        # Ends it. Returns the account, or nil.
        def close
          current.tap { Thread.current.thread_variable_set(:paceline_account, nil) }
        end
      end

      # Counts; `milliseconds` in which the thread did nothing but calls; `hosts`: {name => Host}.
      attr_reader :calls, :new_connections, :handshakes, :milliseconds, :hosts

      def initialize
        @calls = @new_connections = @handshakes = @depth = 0
        @milliseconds = 0.0
        @hosts = Hash.new { |hosts, name| hosts[name] = Host.new(0, 0, 0, 0.0, 0, 0.0) }
      end

      # As the log has it; empty without a call.
      def to_s
        return "" if @calls.zero? && @new_connections.zero?

        "outbound=#{@calls} new_conn=#{@new_connections} outbound_ms=#{@milliseconds.round}"
      end

      # Times the block. What calls make within it, at once or one within another, is in its time.
      def during
        began = now
        @depth += 1
        begin
          yield
        ensure
          @depth -= 1
          @milliseconds += (now - began) * 1000 if @depth.zero?
        end
      end

      # One call to this host.
      def call(name)
        began = now
        @calls += 1
        host = @hosts[name]
        host.calls += 1
        during { yield }
      ensure
        host.milliseconds += (now - began) * 1000
      end

      # A connection was opened in so many seconds. `own`: by a client of the application's own.
      def connected(name, tls, seconds, own: false)
        @new_connections += 1
        @handshakes += 1 if tls
        host = @hosts[name]
        host.new_connections += 1
        host.handshakes += 1 if tls
        return unless own

        host.own += 1
        host.own_milliseconds += seconds * 1000
      end

      # What the front has said of a call: the value of Paceline-Egress.
      def reported(destination, field)
        return unless field.match?(/\bnew(?:=\?1)?(?:,|\z)/)

        spent = field.scan(/\b(?:dns|connect|tls)=(\d+(?:\.\d+)?)/).sum { |time,| time.to_f }
        connected(destination.address, destination.tls?, spent / 1000)
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end

      # Whether a connection is being opened that is counted already.
      attr_accessor :connecting

      # Before OpenSSL::SSL::SSLSocket: the handshakes of clients that don't use Net::HTTP.
      module Handshakes
        @installed = false

        def self.install
          return if @installed

          @installed = true
          OpenSSL::SSL::SSLSocket.prepend(self)
        end

        def connect
          paceline_begin_to_shake
          paceline_shaken(super)
        end

        def connect_nonblock(exception: true)
          paceline_begin_to_shake
          paceline_shaken(super)
        end

        private

        def paceline_begin_to_shake
          @paceline_shaking ||= Account.current&.now
        end

        def paceline_shaken(result)
          account = Account.current
          return result if account.nil? || account.connecting || @paceline_shaking.nil? || !result.equal?(self)
          return result if defined?(Trust::Socket) && is_a?(Trust::Socket)

          account.connected(hostname || "unknown", true, account.now - @paceline_shaking, own: true)
          result
        end
      end
      private_constant :Handshakes
    end
  end
end
