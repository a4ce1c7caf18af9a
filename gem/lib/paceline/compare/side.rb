# frozen_string_literal: true

require "json"
require "net/http"
require "socket"
require_relative "child"
require_relative "processes"

module Paceline
  module Compare
    # The run can't go on, in a sentence that says why and what to do.
    class Failed < StandardError; end

    # One version of the application: `paceline` with its folder, on a free port of loopback, with its socket and log in a folder for temporary
    # files. Starts and stops it, and reads what it uses. It sends no load, and touches no other server.
    class Side
      # Seconds: an application may load for long, and the server says after that where it was; a server that was asked to end has requests in progress; one request.
      START_LIMIT = 300
      STOP_LIMIT = 20
      REQUEST_LIMIT = 60
      STEP = 0.02
      # Lines of the log that are shown if the application does not start.
      SHOWN = 40
      LISTENING = %r{Listening on (http://\S+)}
      # Set for the terminal or for another application's folder.
      FOREIGN = %w[PORT BINDING HOST WEB_CONCURRENCY BUNDLE_GEMFILE BUNDLE_BIN_PATH RUBYOPT RUBYLIB].freeze
      # Where the gems of the terminal's Ruby are.
      OF_RUBY = %w[GEM_HOME GEM_PATH GEM_ROOT].freeze
      private_constant :START_LIMIT, :STOP_LIMIT, :REQUEST_LIMIT, :STEP, :SHOWN, :LISTENING, :FOREIGN, :OF_RUBY

      # VERSIONS: like "ruby 3.1.2, rack 2.2.6".
      attr_reader :name, :dir, :ruby, :base, :start_seconds, :versions

      # NAME is A or B, RUBY a RubyChoice, PROGRAM paceline, FOLDER a private one for what the server writes.
      def initialize(name, dir, ruby, settings, program, folder)
        @name = name
        @dir = dir
        @ruby = ruby
        @settings = settings
        @program = program
        @folder = folder
        @log = file("log")
      end

      # Returns when all workers are ready.
      def start
        began = now
        @pid = launch
        wait_until_ready(began)
        @start_seconds = now - began
        @base = log[LISTENING, 1] || raise(Failed, "#{name}: the server listens on no TCP port:\n#{last_lines}")
        @versions = generation.fetch("versions")
      end

      # Ends it, and waits until nothing of it runs.
      def stop
        return if @pid.nil? || ended?
        signal(:TERM, [@pid])
        limit = now + STOP_LIMIT
        sleep(STEP) until ended? || now > limit
        kill unless @ended
      end

      # What its processes have used so far.
      def reading
        Processes.read(pids)
      end

      def pids
        Processes.tree(@pid)
      end

      # Bytes of all processes of the application: those that only one of them has, and their shares of all that they use. The mean of the workers' heap slots.
      def memory
        app = ask("/memory").fetch("sites").values.first
        heaps = app.fetch("generations").flat_map { |one| one.fetch("workers") }.filter_map { |worker| worker["heap"] }
        { "pss" => app.dig("of_all", "pss"), "private_dirty" => app.dig("of_all", "private_dirty"), "slots_used" => mean(heaps, "live"), "slots_free" => mean(heaps, "free") }
      end

      # The response to a GET of PATH. FIELDS: [name, value] of each header field.
      def get(path, fields)
        uri = URI(base)
        Net::HTTP.start(uri.host, uri.port, open_timeout: REQUEST_LIMIT, read_timeout: REQUEST_LIMIT) do |http|
          request = Net::HTTP::Get.new(path, "Accept-Encoding" => "identity")
          fields.each { |field, value| request[field] = value }
          http.request(request)
        end
      rescue IOError, SystemCallError, Timeout::Error => e
        raise Failed, "#{name}: GET #{path} was not answered: #{e.message}"
      end

      def last_lines(from = 0)
        log[from..].to_s.lines.last(SHOWN).join
      end

      def log
        File.read(@log, encoding: "UTF-8").scrub
      end

      private

      def launch
        Child.start([@program, *arguments], "TERM", environment: environment, in: File::NULL, out: @log, err: %i[child out])
      end

      def arguments
        ["--dir", @dir, "-C", "-", "-b", "tcp://127.0.0.1:0", "-e", @settings.environment, "-w", @settings.workers.to_s, "-t", @settings.threads.to_s,
         "--ruby", @ruby.command, "-q", "--page-cache=false", "--ready-path", "off", "--start-timeout", "#{START_LIMIT}s", "--control", control, "--incidents-dir", file("incidents"), *@settings.server_flags]
      end

      def environment
        without = FOREIGN + (@ruby.usual? ? [] : OF_RUBY)
        without.to_h { |variable| [variable, nil] }.merge("PACELINE_CONTROL" => control, "RAILS_MAX_THREADS" => @settings.threads.to_s)
      end

      def control
        file("control.sock")
      end

      def file(name)
        File.join(@folder, name)
      end

      def wait_until_ready(began)
        until ready?
          does_not_start if ended? || failure
          raise Failed, "#{name} was not ready after #{START_LIMIT} s: #{@dir}\n#{last_lines}" if now - began > START_LIMIT + STOP_LIMIT
          sleep(STEP)
        end
      end

      # The server says it to the control socket first: its log has all of it when it has ended.
      def does_not_start
        stop
        raise Failed, "#{name} does not start: #{@dir}\n#{last_lines}"
      end

      def ready?
        site = ask("/status").fetch("sites").values.first or return false
        @app = site.fetch("app") or raise Failed, "#{name} is no Ruby application: #{@dir} has no config.ru, no Rails application and no file that requires Sinatra"
        workers = generation&.fetch("workers")
        workers && failure.nil? && workers.size >= @settings.workers && workers.all? { |worker| worker["ready"] }
      rescue Errno::ENOENT, Errno::ECONNREFUSED
        false # not yet
      end

      def failure
        @app && @app["failure"]
      end

      def generation
        @app.fetch("generations").find { |one| one["role"] == "current" }
      end

      # The control socket's answer.
      def ask(path)
        UNIXSocket.open(control) do |socket|
          socket.write("GET #{path} HTTP/1.1\r\nHost: paceline\r\nConnection: close\r\n\r\n")
          head, body = socket.read.split("\r\n\r\n", 2)
          raise Failed, "#{name}: the server does not answer #{path}: #{head.to_s.lines.first}" unless head.to_s.match?(%r{\AHTTP/1\.1 200 })
          JSON.parse(body)
        end
      end

      def mean(heaps, figure)
        heaps.sum { |heap| heap.fetch(figure) }.fdiv(heaps.size).round if heaps.any?
      end

      def ended?
        @ended ||= !Process.wait(@pid, Process::WNOHANG).nil?
      end

      # All of them at once: what a front that is killed has started could outlive it for a moment.
      def kill
        signal(:KILL, pids)
        Process.wait(@pid)
        @ended = true
      end

      def signal(name, pids)
        pids.each do |pid|
          Process.kill(name, pid)
        rescue Errno::ESRCH
          next
        end
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
