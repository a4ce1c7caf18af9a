# frozen_string_literal: true

require "json"
require "net/http"
require "open3"

module Paceline
  module Tour
    # The tour's own server: `paceline` with the application, on a free port of loopback, with its socket and log in a folder
    # for temporary files. It never touches a server that already runs for the application.
    class Served
      # Something did not work, in a sentence that says what to do.
      class Failed < StandardError; end

      # Seconds. An application may load for long; and how often it is looked whether it has.
      START_LIMIT = 300
      STEP = 0.05
      # Seconds until a request is given up.
      REQUEST_LIMIT = 60
      # Lines of the log that are shown if the application does not start.
      SHOWN = 30
      LISTENING = %r{Listening on (http://\S+)}
      private_constant :START_LIMIT, :STEP, :REQUEST_LIMIT, :SHOWN, :LISTENING

      attr_reader :dir, :base

      # PROGRAM is paceline, DIR the application's directory, FOLDER a private one for what the server writes.
      def initialize(program, dir, folder)
        @program = program
        @dir = dir
        @folder = folder
        @control = file("control.sock")
        @log = file("log")
      end

      # Starts the server, and returns the seconds until it answered. SETTINGS is the text of a paceline.toml, for this time.
      def start(settings = nil)
        stop
        File.write(file("paceline.toml"), settings) if settings
        began = now
        @pid = Process.spawn(environment, @program, "--dir", @dir, "-C", settings ? file("paceline.toml") : "-", "-p", "0", *own_files,
                             in: File::NULL, out: @log, err: %i[child out])
        @base = await(began)
        now - began
      end

      # Ends it as Ctrl-C would, and waits.
      def stop
        return unless @pid
        Process.kill(:TERM, @pid)
        Process.wait(@pid)
        @pid = nil
      rescue SystemCallError
        @pid = nil
      end

      # The address of PATH; starts the server if it does not run.
      def url(path)
        start unless @pid
        "#{base}#{path}"
      end

      # The response to a GET of PATH. COOKIE is sent if there is one.
      def get(path, cookie: nil)
        uri = URI(url("/"))
        Net::HTTP.start(uri.host, uri.port, open_timeout: REQUEST_LIMIT, read_timeout: REQUEST_LIMIT) do |http|
          http.get(path, { "Host" => "localhost", "Accept" => "text/html" }.merge(cookie ? { "Cookie" => cookie } : {}))
        end
      rescue IOError, SystemCallError, Timeout::Error => e
        raise Failed, "GET #{path} was not answered: #{e.message}"
      end

      # Runs `paceline ARGUMENTS` for this server: what it printed, and whether it succeeded. If it did not, what it complained of is
      # a part of that.
      def run(*arguments)
        text, complaints, status = Open3.capture3(environment, @program, *arguments, chdir: @dir, stdin_data: "")
        [status.success? ? text : "#{text}#{complaints}", status.success?]
      end

      # Where a command may leave a result.
      def file(name)
        File.join(@folder, name)
      end

      # The same, while BLOCK runs: what the command printed, and what the block returned.
      def beside(*arguments)
        running = Thread.new { run(*arguments) }
        result = yield
        [running.value.first, result]
      end

      private

      # The socket's path reaches all commands, so that none finds another server of this application.
      # Without live reload, whose script in each page would be counted as the application's bytes.
      def environment
        { "PACELINE_CONTROL" => @control, "PACELINE_LIVE_RELOAD" => "false", "PORT" => nil, "BINDING" => nil, "HOST" => nil, "WEB_CONCURRENCY" => nil }
      end

      def own_files
        ["--control", @control, "--incidents-dir", file("incidents")]
      end

      def await(began)
        until ready?
          does_not_start if ended? || failure?
          raise Failed, "the application was not ready after #{START_LIMIT} s; see `paceline check`" if now - began > START_LIMIT
          sleep(STEP)
        end
        File.read(@log)[LISTENING, 1] || raise(Failed, "the server listens on no TCP port:\n#{last_lines}")
      end

      # The server says it to the control socket first: its log has all of it when it has ended.
      def does_not_start
        stop
        raise Failed, "the application does not start; `paceline check` says more. Its last lines:\n#{last_lines}"
      end

      def ready?
        text, well = run("status", "--json")
        @status = well ? JSON.parse(text) : {}
        @status["readiness"] == "ready" && !failure?
      rescue JSON::ParserError
        false
      end

      def failure?
        @status.fetch("sites", {}).each_value.any? { |site| site.dig("app", "failure") }
      end

      def ended?
        @pid = nil if Process.wait(@pid, Process::WNOHANG)
        @pid.nil?
      end

      def last_lines
        File.readlines(@log).last(SHOWN).join
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
