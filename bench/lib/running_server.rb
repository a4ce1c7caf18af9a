# frozen_string_literal: true

# One server under measurement, from its start to its end: boot time, processes, memory. When `stop` returns nothing of it runs.
require "fileutils"
require "net/http"
require "rbconfig"
require "socket"
require_relative "machine"
require_relative "processes"
require_relative "servers"

module Bench
  class RunningServer
    START_LIMIT = 90
    STOP_LIMIT = 10

    class Failed < StandardError; end

    class << self
      # Seconds of wrong answers after which no right one is expected any more.
      attr_accessor :wrong_limit
    end
    self.wrong_limit = 10

    attr_reader :server, :port, :pid, :boot_seconds

    # READY is the path whose 200 tells that it serves.
    def initialize(server, app, processes, work, ready)
      @server = server
      @app = app
      @processes = processes
      @work = File.join(work, server.name)
      @ready = ready
      @port = TCPServer.open("127.0.0.1", 0) { |socket| socket.addr[1] }
      FileUtils.rm_rf(@work)
      FileUtils.mkdir_p(@work)
    end

    # In a session of its own: there Linux gives it a share of the processors as a whole. Otherwise, beside other work, a server
    # with many threads would get more of them than one with few.
    def start
      began = now
      @pid = launch
      wait_for("an answer from #{@ready}", began) { answers? }
      @boot_seconds = now - began
      # Passenger serves with its first worker while it still starts the second.
      expected = server.workers || Servers::WORKERS
      wait_for("#{expected} workers", began) { workers.size >= expected }
      self
    end

    def stop
      return unless @pid

      Processes.signal("TERM", [@pid])
      gone_within(STOP_LIMIT) || Processes.signal("KILL", @processes.tree.keys)
      gone_within(STOP_LIMIT) || raise(Failed, "#{server.name} can't be stopped: #{@processes.tree.keys.map { |pid| @processes.title(pid) }}")
      @pid = nil
    end

    def processes
      @processes.tree
    end

    def workers
      titled = processes.keys.select { |pid| @processes.title(pid).match?(server.worker) }
      # All processes of a server from a checkout have one title: those that forked another are no workers.
      server.checkout ? titled.select { |pid| (@processes.children(pid) & titled).empty? } : titled
    end

    # Bytes: private dirty of each worker, and of all processes; the proportional share of all of them.
    def memory
      all = processes.keys.to_h { |pid| [pid, @processes.memory(pid)] }
      of_workers = workers.filter_map { |pid| all[pid]&.private_dirty }
      { worker: of_workers.empty? ? nil : of_workers.sum / of_workers.size, private_dirty: all.values.sum(&:private_dirty), proportional: all.values.sum(&:proportional) }
    end

    def command
      server.command.call(@port, @work).map(&:to_s)
    end

    def log
      File.join(@work, "output.log")
    end

    private

    # The pid of the command.
    def launch
      Process.spawn(*arguments)
    end

    # What Process.spawn is given.
    def arguments
      [environment, *Processes.ending_with_us("TERM"), "setsid", *command, { chdir: @app.directory, in: File::NULL, %i[out err] => log }]
    end

    def ended?
      Process.waitpid(@pid, Process::WNOHANG)
    end

    def environment
      { "RAILS_ENV" => "production", "RACK_ENV" => "production", "BENCH_WORKERS" => Servers::WORKERS.to_s,
        "RAILS_MAX_THREADS" => server.threads.to_s, "PACELINE_GEM_DIR" => File.join(Servers::HERE, "gem") }.merge(Machine::YJIT).merge(@app.environment)
    end

    def answers?
      status = Net::HTTP.start("127.0.0.1", @port, open_timeout: 5, read_timeout: 60) { |http| http.get(@ready).code.to_i }
      status == 200 || wrong("with status #{status}")
    rescue SystemCallError, Timeout::Error
      false
    rescue IOError, Net::HTTPBadResponse
      wrong("without an HTTP response")
    end

    # Servers may answer so while they start; not for long.
    def wrong(how)
      @wrong_since ||= now
      raise Failed, "#{server.name} answers #{@ready} #{how}\n#{last_words}" if now - @wrong_since > RunningServer.wrong_limit

      false
    end

    def wait_for(what, began)
      until yield
        raise Failed, "#{server.name} ended before there was #{what}\n#{last_words}" if ended?
        raise Failed, "#{server.name}: #{START_LIMIT} s without #{what}\n#{last_words}" if now - began > START_LIMIT

        sleep 0.01
      end
    end

    def last_words
      File.readlines(log).last(20).join
    rescue SystemCallError
      ""
    end

    def gone_within(seconds)
      limit = now + seconds
      loop do
        reap
        return true if processes.empty?
        return false if now > limit

        sleep 0.02
      end
    end

    def reap
      nil while Process.waitpid(-1, Process::WNOHANG)
    rescue Errno::ECHILD
      nil
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
