# frozen_string_literal: true

# One front of a cluster with an application of its own, as it is on each of several machines: started, deployed to, stopped. When `stop` returns nothing of it runs.
require "json"
require "net/http"
require "open3"
require "socket"
require_relative "../lib/processes"
require_relative "../lib/running_server"
require_relative "../restart/app"

module Bench
  class RollingFront
    # Seconds until it must serve, and until it must be gone.
    START_LIMIT, STOP_LIMIT = 90, 15

    attr_reader :port

    # URL: of the Valkey. OPTIONS: boot and work, in milliseconds.
    def initialize(number, url, options)
      @number = number
      @app = RestartApp.new("rolling-#{number}", releases: false, boot_ms: options[:boot], work_ms: options[:work])
      @port = TCPServer.open("127.0.0.1", 0) { |socket| socket.addr[1] }
      File.write(File.join(folder, "paceline.toml"), "[cluster]\nurl = \"#{url}\"\nname = \"bench\"\n")
    end

    def start
      words = [Servers.paceline, "-b", "tcp://127.0.0.1:#{port}", "-e", "production", "-w", Servers::WORKERS, "-t", Servers::THREADS, "-q", *Servers::AS_ROOT]
      @pid = Process.spawn(environment, *Processes.ending_with_us("TERM"), "setsid", *words.map(&:to_s), chdir: folder, in: File::NULL, %i[out err] => log)
    end

    # Returns when it serves and knows so many fronts.
    def ready(fronts)
      limit = now + START_LIMIT
      until serves? && members == fronts
        raise RunningServer::Failed, "front #{@number} is not ready\n#{File.readlines(log).last(20).join}" if now > limit || ended?

        sleep 0.02
      end
    end

    # The next version of the application, of which nobody is told.
    def deploy
      @app.deploy("ok")
      @app.version
    end

    # Has all fronts restarted, one after the other; nothing is watched after each, so that all of the time is restarts.
    def restart_all
      text, status = Open3.capture2e(environment, Servers.paceline, "restart", "--rolling", "--watch", "0s", chdir: folder)
      raise RunningServer::Failed, "paceline restart --rolling ended with #{status.exitstatus}:\n#{text}" unless status.success?
    end

    def stop
      return unless @pid

      Processes.signal("TERM", [@pid])
      limit = now + STOP_LIMIT
      until ended?
        Processes.signal("KILL", [@pid]) if now > limit
        sleep 0.02
      end
    end

    private

    def folder = @app.directory
    def log = File.join(folder, "output.log")

    def environment
      { "RAILS_ENV" => "production", "RACK_ENV" => "production", "PACELINE_LIVE_RELOAD" => "false", "PACELINE_GEM_DIR" => File.join(Servers::HERE, "gem"),
        "XDG_STATE_HOME" => File.join(folder, "state"), **@app.environment }
    end

    def serves?
      Net::HTTP.start("127.0.0.1", port, open_timeout: 5, read_timeout: 60) { |http| http.get("/").code } == "200"
    rescue SystemCallError, Timeout::Error, IOError
      false
    end

    def members
      UNIXSocket.open(File.join(folder, "tmp/paceline.sock")) do |io|
        io.write("GET /cluster HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        JSON.parse(io.read.split("\r\n\r\n", 2).last)["members"].size
      end
    rescue SystemCallError, JSON::ParserError
      0
    end

    def ended?
      @pid = nil if @pid && Process.waitpid(@pid, Process::WNOHANG)
      @pid.nil?
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
