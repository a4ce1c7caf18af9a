# frozen_string_literal: true

# Prepares a loaded application for the fork: switches YJIT on, makes the warm-up requests, and leaves a heap that workers
# can share for long. Requires nothing; what a Ruby does not have is left out, and nothing here keeps an app from starting.
module Paceline
  module Server
    class Tuning
      # Objects grow old in three collections; old ones are no longer written to (their age is in the object itself).
      FULL_AGE = 3
      DEVELOPMENT = %w[development test].freeze
      # From then on it can be switched on in a process that runs.
      YJIT_SINCE = "3.3"
      private_constant :FULL_AGE, :DEVELOPMENT, :YJIT_SINCE

      # `settings` are START's pairs.
      def initialize(settings)
        @yjit = settings["yjit"].to_s
        @paths = settings["warm_up"].to_s.split
        @host = settings["host"] || "localhost"
        @compact = settings["compact"] == "1"
        @environment = settings["environment"].to_s
      end

      def prepare(app)
        enable_yjit
        warm_up(app)
        settle(young: @paths.any?) # the rest has grown old while it was loaded
      end

      # Collects garbage, and lets what is left grow old: `young` says that there are objects that have not.
      def settle(young:)
        return Process.warmup if Process.respond_to?(:warmup)
        GC.start
        (FULL_AGE - 1).times { GC.start } if young
        GC.compact if @compact && GC.respond_to?(:compact)
      end

      # For the start line: "on"; "missing": it is to be on wherever there is one, and this Ruby was built without; or "".
      def yjit_state
        if defined?(::RubyVM::YJIT) then ::RubyVM::YJIT.enabled? || (wanted? && ::RubyVM::YJIT.respond_to?(:enable)) ? "on" : ""
        else wanted? && RUBY_VERSION >= YJIT_SINCE ? "missing" : ""
        end
      end

      private

      # After the boot, so that what runs once is not compiled. Before Ruby 3.3 that can't be done, and the front asked for
      # it by RUBY_YJIT_ENABLE.
      def enable_yjit
        return unless wanted?
        if !defined?(::RubyVM::YJIT)
          warn "paceline: yjit = \"on\": Ruby #{RUBY_VERSION} was built without YJIT; continuing without it" if @yjit == "on"
        elsif !::RubyVM::YJIT.enabled? && ::RubyVM::YJIT.respond_to?(:enable)
          ::RubyVM::YJIT.enable
        end
      end

      def wanted?
        return false if zjit?
        @yjit == "on" || (@yjit != "off" && !DEVELOPMENT.include?(@environment) && !decided?)
      end

      # Ruby 4.0's other compiler, which the operator or the application turned on: a Ruby runs one of them only.
      def zjit? = defined?(::RubyVM::ZJIT) && ::RubyVM::ZJIT.enabled?

      # By the operator, or by the application.
      def decided?
        return true if ENV.key?("RUBY_YJIT_ENABLE") || ENV["RUBYOPT"].to_s.include?("jit")
        config = ::Rails.application&.config if defined?(::Rails) && ::Rails.respond_to?(:application)
        config.respond_to?(:yjit) && config.yjit == false
      rescue NoMethodError # Rails' configuration answers any name that was set in it, and no other
        false
      end

      # What first requests load, compile and remember belongs to all workers then.
      def warm_up(app)
        return if @paths.empty?
        threads = Thread.list.size
        @paths.each { |path| request(app, path) }
        more = Thread.list.size - threads
        warn "paceline: warm_up started #{more} thread#{"s" if more > 1}, which workers will not have" if more.positive?
      end

      # With what comes after a response: there an application gives back what the request held, as Rails 8.1 does with its connection to the database.
      def request(app, path)
        env = env_of(path)
        status = fields = body = nil
        error = guard(path) do
          status, fields, body = app.call(env)
          body.each { |_part| } if body.respond_to?(:each)
          warn "paceline: warm_up: #{path} was answered with #{status}" if status.to_i >= 500
        end
        guard(path) { body.close } if body.respond_to?(:close)
        Array(env["rack.response_finished"]).reverse_each { |callback| guard(path) { callback.call(env, status, fields, error) } }
        Array(env["rack.after_reply"]).each { |callback| guard(path) { callback.call } }
      end

      # What the block raised, which is said, or nil.
      def guard(path)
        yield
        nil
      rescue StandardError => e
        warn "paceline: warm_up: #{path}: #{e.class}: #{e.message}", *e.backtrace.first(5)
        e
      end

      # https, for an application that only redirects otherwise.
      def env_of(path)
        path, query = path.split("?", 2)
        { "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => path, "QUERY_STRING" => query.to_s, "HTTPS" => "on",
          "SERVER_NAME" => @host, "SERVER_PORT" => "443", "SERVER_PROTOCOL" => "HTTP/1.1", "HTTP_HOST" => @host.dup,
          "REMOTE_ADDR" => "127.0.0.1", "HTTP_USER_AGENT" => "paceline (warm-up)", "HTTP_ACCEPT" => "text/html,*/*",
          "rack.url_scheme" => "https", "rack.input" => StringIO.new("".b), "rack.errors" => $stderr,
          "rack.version" => [1, 6], "rack.multithread" => false, "rack.multiprocess" => true, "rack.run_once" => false,
          "rack.hijack?" => false, "rack.after_reply" => [], "rack.response_finished" => [], "paceline.warm_up" => true }
      end
    end
  end
end
