# frozen_string_literal: true

# `require "paceline/http"`: outbound HTTP on connections that are warm already. Guide: docs/outbound.md.
require "net/http"
require "openssl"

module Paceline
  module HTTP
    # Ruby's own Net::HTTP, also where another has taken its place.
    Stock = defined?(::WebMock::HttpLibAdapters::NetHttpAdapter) ? ::WebMock::HttpLibAdapters::NetHttpAdapter::OriginalNetHTTP : Net::HTTP
    private_constant :Stock

    # Monotonic seconds.
    def self.now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end

require_relative "uninterrupted"
require_relative "http/errors"
require_relative "http/together"
require_relative "http/deadline"
require_relative "http/counting"
require_relative "http/wire"
require_relative "http/head"
require_relative "http/keep_alive"
require_relative "http/pool"
require_relative "http/stores"
require_relative "http/trust"
require_relative "http/destination"
require_relative "http/front_members"
require_relative "http/failures"
require_relative "http/front"
require_relative "http/hosts"
require_relative "http/own_connect"
require_relative "http/lent_connections"
require_relative "http/session"
require_relative "http/response"
require_relative "http/calls"

module Paceline
  module HTTP
    Stock.prepend(LentConnections)
    Stock.singleton_class.prepend(OwnConnect::Detection)
    OwnConnect.look
    @pool = Pool.new

    class << self
      # Connections that wait for their next request.
      attr_reader :pool

      # From here on plain Net::HTTP, and whatever uses it, rides warm connections. `only`, `except`: hosts, each a name, "*.example.org" or a Regexp.
      # The last call holds. Raises ArgumentError for what is no host.
      def install!(only: nil, except: nil)
        Hosts.set(only, except)
        Stores.lazy!
        self
      end

      # Takes `install!` back.
      def uninstall!
        Hosts.clear
        self
      end

      # The block's outbound calls have so many seconds together; an earlier deadline holds. Whoever is still waiting gets DeadlineExceeded.
      def deadline(seconds, &block)
        Deadline.within(seconds, &block)
      end

      # The trace that this thread's calls belong to (W3C Trace Context): fields of requests that have none of their own. Nil: none. Under Paceline each
      # request sets its own.
      def trace(parent, state)
        Thread.current.thread_variable_set(:paceline_trace, (parent && [parent, state]))
      end

      # Closes the connections that nobody uses right now, as before a fork that is not to inherit any.
      def close
        @pool.close_all
      end
    end
  end
end
