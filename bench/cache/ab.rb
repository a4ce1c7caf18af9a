# frozen_string_literal: true

# Drives ab, which speaks HTTP/1.0 and may connect for each request. It compares each response's status and length with the
# first one's; its latencies include connecting.
require "tempfile"
require_relative "../lib/processes"
require_relative "../lib/wrk"

module Bench
  class Ab
    MOST = 5_000_000

    # What ab printed, and its table of percentiles (CSV: percentage, milliseconds).
    def self.parse(output, percentiles)
      completed = output[/^Complete requests: +(\d+)/, 1] or raise NoResult, "ab gave no result: #{output.strip.lines.last}"
      failures = { "Failed requests" => "other length, or none", "Non-2xx responses" => "status", "Write errors" => "write errors" }.filter_map do |line, what|
        count = output[/^#{line}: +(\d+)/, 1].to_i
        ["ab: #{what}", count] if count.positive?
      end
      times = percentiles.scan(/^(\d+),([\d.]+)/).to_h { |percent, time| [percent.to_i, time.to_f / 1000] }
      { completed: completed.to_i, seconds: output[/^Time taken for tests: +([\d.]+)/, 1].to_f, length: output[/^Document Length: +(\d+)/, 1].to_i,
        failures: failures, p50: times[50], p99: times[99] }
    end

    # SECONDS or REQUESTS ends it. LENGTH: of each response's body.
    def initialize(port:, path:, connections:, keep_alive:, seconds: nil, requests: nil, cookie: nil, length: nil)
      @url = "http://127.0.0.1:#{port}#{path}"
      @words = [*(["-t", seconds.ceil] if seconds), "-n", requests || MOST, "-c", connections, *("-k" if keep_alive), *(["-C", cookie] if cookie)]
      @length = length
    end

    def in_child
      table = Tempfile.create("percentiles")
      reading, writing = IO.pipe
      before = Process.times
      pid = Process.spawn(*Processes.ending_with_us("KILL"), *["ab", "-q", "-e", table.path, *@words, "-H", "Host: bench.test", "-H", "User-Agent: paceline-bench", @url].map(&:to_s),
                          in: File::NULL, %i[out err] => writing)
      writing.close
      text = yield(pid, reading)
      Process.waitpid(pid)
      after = Process.times
      told(self.class.parse(text, File.read(table.path)), after.cutime + after.cstime - before.cutime - before.cstime)
    ensure
      reading&.close
      table&.close
      File.unlink(table.path) if table
    end

    private

    def told(numbers, own_cpu)
      length = numbers.delete(:length)
      numbers[:failures] << ["ab: #{length} bytes instead of #{@length}", numbers[:completed]] if @length && length != @length
      Wrk::Result.new(**numbers, timely: numbers[:completed], own_cpu: own_cpu)
    end
  end
end
