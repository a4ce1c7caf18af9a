# frozen_string_literal: true

# A short run under strace, apart from all timing: how many writes to the client a response takes, and which system calls a
# request costs, in workers and in the server's other processes.
require "net/http"
require "tempfile"

module Bench
  class Trace
    REQUESTS = 30
    WRITE = /\A(?:write|writev|pwritev2?|sendto|sendmsg|sendmmsg|sendfile|splice)\z/

    def self.available?
      @available = system("strace", "-V", %i[out err] => File::NULL) if @available.nil?
      @available
    end

    # Counts the lines of `strace -f -yy -o`: {writes:, workers: {call => n}, others: {call => n}}, each divided by REQUESTS.
    def self.count(lines, port, workers, requests = REQUESTS)
      writes = 0
      calls = { workers: Hash.new(0), others: Hash.new(0) }
      lines.each do |line|
        thread, call, rest = line.match(/\A(\d+)\s+(\w+)\((.*)/)&.captures
        next unless call

        calls[workers.include?(thread.to_i) ? :workers : :others][call] += 1
        writes += 1 if call.match?(WRITE) && rest.match?(/\A\d+<TCP(?:v6)?:\[\S*?:#{port}->/)
      end
      per_request = ->(counts) { counts.sort_by { |_, n| -n }.to_h { |call, n| [call, (n / requests.to_f).round(2)] }.select { |_, n| n >= 0.05 } }
      { writes: (writes / requests.to_f).round(2), calls: (calls.values.sum { |counts| counts.values.sum } / requests.to_f).round(1),
        workers: per_request.call(calls[:workers]), others: per_request.call(calls[:others]) }
    end

    def initialize(running, processes)
      @running = running
      @processes = processes
    end

    # nil when there is no strace or it may not look.
    def run(kind)
      return unless self.class.available?

      ask(kind, 4)
      Tempfile.create("trace") do |file|
        pids = @running.processes.keys
        worker_threads = @running.workers.flat_map { |pid| Dir.children("/proc/#{pid}/task").map(&:to_i) }
        strace = Process.spawn("strace", "-f", "-qq", "-yy", "-s", "0", "-o", file.path, *pids.flat_map { |pid| ["-p", pid.to_s] }, %i[in out err] => File::NULL)
        @processes.own(strace) do
          sleep 0.5
          ask(kind, REQUESTS)
        ensure
          Process.kill("INT", strace)
          Process.waitpid(strace)
        end
        lines = File.readlines(file.path, encoding: Encoding::BINARY)
        self.class.count(lines, @running.port, worker_threads) unless lines.empty?
      end
    end

    private

    # One connection, one request after the other.
    def ask(kind, times)
      Net::HTTP.start("127.0.0.1", @running.port, read_timeout: 60) do |http|
        times.times { http.send_request(kind.method, kind.path, kind.body, "Connection" => "keep-alive") }
      end
    end
  end
end
