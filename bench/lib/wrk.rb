# frozen_string_literal: true

# Drives wrk, the load generator for servers that answer faster than a generator in Ruby can ask. Its latencies leave
# connecting out. It takes responses that end with their connection, as Unicorn and Thin send those without a Content-Length, for errors.
require "tempfile"
require_relative "measurement"
require_relative "processes"

module Bench
  class Wrk
    # COMPLETED: answers, also those that came after the time; TIMELY: those within SECONDS.
    Result = Struct.new(:completed, :timely, :seconds, :failures, :p50, :p99, :own_cpu, keyword_init: true)
    SCRIPT = File.join(__dir__, "wrk.lua")
    DRAIN_LIMIT = 60

    # What wrk.lua printed, as numbers and a list of failures with their counts.
    def self.parse(output)
      line = output[/^result (.*)$/, 1] or raise NoResult, "wrk gave no result: #{output.strip.lines.last}"
      numbers = line.scan(/(\w+)=(\d+)/).to_h { |name, number| [name.to_sym, number.to_i] }
      failures = %i[connect read write timeout].filter_map { |name| ["wrk: #{name} errors", numbers[name]] if numbers[name].positive? }
      failures << ["wrong: #{output[/^why (.*)$/, 1]}", numbers[:wrong]] if numbers[:wrong].positive?
      missing = numbers[:sent] - numbers[:completed]
      failures << ["never answered", missing] if missing.positive?
      [numbers, failures]
    end

    # HIT: a header's name as the server writes it and a Lua pattern that every response's must match. KEYS: ["random", N] puts one of N
    # keys behind the path of each request, ["each", N] asks for each of them once, instead of for SECONDS.
    def initialize(port:, kind:, connections:, keep_alive:, seconds:, hit: nil, keys: nil)
      @port = port
      @kind = kind
      @connections = connections
      @keep_alive = keep_alive
      @seconds = seconds
      @hit = hit || ["", ""]
      @keys = keys || []
    end

    # The pid is given to the block while wrk works, and what is read from it must come back.
    def in_child
      expected = Tempfile.create("expected", binmode: true)
      expected.write(@kind.expected)
      expected.close
      pid, output = start(expected.path)
      before = Process.times
      text = yield(pid, Drained.new(output, pid))
      Process.waitpid(pid)
      after = Process.times
      numbers, failures = self.class.parse(text)
      timely, seconds = @keys[0] == "each" ? [numbers[:completed], numbers[:micros] / 1e6] : [numbers[:timely], @seconds]
      Result.new(completed: numbers[:completed], timely: timely, seconds: seconds, failures: failures,
                 p50: numbers[:p50] / 1e6, p99: numbers[:p99] / 1e6, own_cpu: after.cutime + after.cstime - before.cutime - before.cstime)
    ensure
      output&.close
      File.unlink(expected.path) if expected
    end

    private

    def start(expected)
      reading, writing = IO.pipe
      command = [*Processes.ending_with_us("KILL"), "wrk", "-t", 1, "-c", @connections, "-d", "#{(@seconds + DRAIN_LIMIT).ceil}s", "--timeout", "#{DRAIN_LIMIT}s", "-s", SCRIPT,
                 "http://127.0.0.1:#{@port}#{@kind.path}", "--", @seconds, @kind.path, @keep_alive ? "keep" : "close", expected, *@hit, *@keys]
      pid = Process.spawn(*command.map(&:to_s), in: File::NULL, %i[out err] => writing)
      writing.close
      [pid, reading]
    end

    # Reads wrk's output and interrupts it as soon as it says that all is answered.
    class Drained
      def initialize(io, pid)
        @io = io
        @pid = pid
      end

      def read
        text = +""
        @io.each_line do |line|
          text << line
          Process.kill("INT", @pid) if line == "drained\n"
        end
        text
      end
    end
  end
end
