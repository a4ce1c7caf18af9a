# frozen_string_literal: true

# A process of measured.rb, seen from the benchmark; and the redis-server that some of them need.
require "fileutils"
require "socket"
require_relative "../lib/asked_process"

module Bench
  class PStoreProcess < AskedProcess
    def initialize(way, environment = {}) = super(File.join(__dir__, "measured.rb"), way, environment: environment)

    def tell(what, **question) = super(question.merge(ask: what))

    def ask(what, **question)
      tell(what, **question)
      answer
    end
  end

  # Redis with its files and its socket in FOLDER, and nothing on the network.
  class RedisProcess
    attr_reader :socket, :pid

    def initialize(folder, arguments)
      FileUtils.mkdir_p(folder)
      @socket = File.join(Dir.mktmpdir("bench-redis"), "socket")
      @pid = Process.spawn(*Processes.ending_with_us("TERM"), "redis-server", "--port", "0", "--unixsocket", @socket, "--dir", folder, "--databases", "16", *arguments,
                           in: File::NULL, out: File::NULL)
      wait
    rescue Errno::ENOENT
      raise PStoreProcess::Failed, "there is no redis-server: run bin/setup bench"
    end

    # Processor seconds of its main thread, which does all of the work.
    def cpu = File.read("/proc/#{@pid}/schedstat").to_i / 1e9

    def resident = Processes.parse_memory(File.read("/proc/#{@pid}/smaps_rollup")).resident

    def close
      return unless @pid

      Process.kill("KILL", @pid)
      Process.wait(@pid)
      FileUtils.rm_rf(File.dirname(@socket))
      @pid = nil
    end

    private

    def wait
      limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 10
      begin
        UNIXSocket.new(@socket).close
      rescue SystemCallError
        raise PStoreProcess::Failed, "redis-server does not start" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit || Process.wait(@pid, Process::WNOHANG)

        sleep 0.01
        retry
      end
    end
  end
end
