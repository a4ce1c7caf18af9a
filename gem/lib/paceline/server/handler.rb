# frozen_string_literal: true

# `rackup -s paceline` and `rails server -u paceline`: this process, which holds the app already, becomes the
# preloader, and the front runs as its child. Listens on nothing itself.
require "socket.so"
require_relative "../front_binary"
require_relative "preloader"

module Paceline
  module Server
    module Handler
      OPTIONS = {
        "Host=HOST" => "Address to listen on (default: localhost)",
        "Port=PORT" => "Port to listen on (default: 9292)",
        "Threads=COUNT" => "Threads of each worker (default: RAILS_MAX_THREADS or the front's own)",
        "Workers=COUNT" => "Worker processes (default: WEB_CONCURRENCY or the front's own)"
      }.freeze

      module_function

      # Other servers that a Gemfile may have, in the order in which Rack picks one.
      OTHERS = %w[puma falcon webrick].freeze

      # Serves `app` until the front ends. Where the gem has no program for this platform another server does.
      def run(app, **options, &block)
        program = FrontBinary.find
      rescue FrontBinary::Missing => e
        hand_over(e, app, options, &block)
      else
        serve(program, app, options, &block)
      end

      def hand_over(missing, app, options, &block)
        handlers = defined?(::Rackup::Handler) ? ::Rackup::Handler : ::Rack::Handler
        other = begin
          handlers.pick(OTHERS)
        rescue LoadError
          abort("paceline: #{missing.message}")
        end
        warn "paceline: #{missing.message}; continuing with #{other.name.split("::").last}"
        other.run(app, **options, &block)
      end

      def serve(program, app, options)
        control, theirs = UNIXSocket.pair
        front = Process.spawn(defaults(options), program, *arguments(options, theirs.fileno), theirs.fileno => theirs.fileno, pgroup: true)
        theirs.close
        yield Running.new(front) if block_given?
        status = forwarding(front) do
          Preloader.new(Control.new(control), app: app).run_adopted
          Process.wait2(front)[1]
        end
        exit(status.exitstatus || 1) unless status.success?
      end

      # The server, as a framework that starts it by its handler wants to stop it.
      Running = Struct.new(:front) do
        def stop = Handler.pass_on(front)
      end

      def arguments(options, number)
        arguments = ["--adopt-control-fd", number.to_s]
        arguments.push("-b", address(options)) if address?(options)
        arguments.push("-e", options[:environment].to_s) if options[:environment]
        arguments.push("-t", options[:Threads].to_s) if options[:Threads]
        arguments.push("-w", options[:Workers].to_s) if options[:Workers]
        arguments
      end

      # As with Puma's handler the host may be a whole address, such as ssl://localhost?key=...&cert=..., or the path of a Unix socket.
      def address(options)
        host, port = (options[:Host] || "localhost").to_s, options[:Port] || 9292
        return "unix://#{host}" if host.start_with?("/", ".")
        return "tcp://#{bracketed(host)}:#{port}" unless host.include?("://")
        host.sub(%r{\A(?!unix:)\w+://(?:\[[^\]]*\]|[^:/?]*)(?=[/?]|\z)}) { |without_port| "#{without_port}:#{port}" }
      end

      # Whether somebody has asked for the address: Rails says so, of its own defaults as well. The addresses of config/puma.rb
      # are stronger than a default, as they are with Puma's handler.
      def address?(options)
        asked = options[:user_supplied_options] or return true
        asked.include?(:Host) || asked.include?(:Port)
      end

      # Where to listen if nobody says it.
      def defaults(options)
        return {} if address?(options)
        host = options[:Host] == "localhost" ? "127.0.0.1" : options[:Host]
        { "BINDING" => host&.to_s, "PORT" => options[:Port]&.to_s }.reject { |name, value| value.nil? || ENV.key?(name) }
      end

      # An IPv6 address needs brackets in a URL.
      def bracketed(host)
        host.include?(":") && !host.start_with?("[") ? "[#{host}]" : host
      end

      # The front is in a process group of its own, so that Ctrl-C reaches it once: from here.
      def forwarding(front)
        before = %w[INT TERM].to_h do |name|
          [name, trap(name) { pass_on(front) }]
        end
        yield
      ensure
        before&.each { |name, handler| trap(name, handler || "DEFAULT") }
      end

      def pass_on(front)
        Process.kill(:TERM, front)
      rescue Errno::ESRCH
        nil
      end
    end
  end
end
