# frozen_string_literal: true

require "json"
require "open3"
require "tmpdir"
require_relative "child"

module Paceline
  module Compare
    # Requests for one page by `paceline bench`, in a process of its own, and the figures of it. It starts no server.
    class Load
      # Times in milliseconds.
      Sample = Struct.new(:rate, :p50, :p99, :answers, :failures, :statuses, :bytes, :generator, :steal, keyword_init: true) do
        # Answers of another kind than the page's.
        def wrong
          failures.values.sum + statuses.sum { |status, count| status.start_with?("2") ? 0 : count }
        end
      end
      COUNTED = "raw_syscalls:sys_enter"
      private_constant :COUNTED

      # FIELDS: [name, value] of each header field.
      def initialize(program, settings, url, fields)
        @program = program
        @settings = settings
        @url = url
        @fields = fields
      end

      def for_seconds(seconds)
        sample(*run(bench("-t", seconds.to_s)))
      end

      def of_requests(count)
        sample(*run(bench("-n", count.to_s)))
      end

      # System calls of the processes PIDS for each request, of some seconds; nil if perf could not count.
      def system_calls(pids, seconds)
        Dir.mktmpdir do |folder|
          counts = File.join(folder, "counts")
          text, status = run(["perf", "stat", "-x", ",", "-e", COUNTED, "-o", counts, "-p", pids.join(","), "--", *bench("-t", seconds.to_s)])
          calls = self.class.counted(File.exist?(counts) ? File.read(counts) : "")
          calls && calls.fdiv([sample(text, status).answers, 1].max)
        end
      end

      # What `perf stat -x ,` wrote.
      def self.counted(text)
        text[/^(\d+),[^,]*,#{Regexp.escape(COUNTED)}/, 1]&.to_i
      end

      # Why system calls are not counted, in one line; nil if they are.
      def self.uncounted
        Dir.mktmpdir do |folder|
          counts = File.join(folder, "counts")
          _, complaint, = Open3.capture3("perf", "stat", "-x", ",", "-e", COUNTED, "-o", counts, "--", "true")
          return if counted(File.exist?(counts) ? File.read(counts) : "")
          "perf may not count (root may; /proc/sys/kernel/perf_event_paranoid): #{complaint.lines.map(&:strip).reject(&:empty?).first || "no counts"}"
        end
      rescue Errno::ENOENT
        "perf is not installed"
      end

      private

      def bench(*ending)
        [@program, "bench", "-q", "--json", "-l", "-k", "-c", @settings.clients.to_s, *ending, *@fields.flat_map { |name, value| ["-H", "#{name}: #{value}"] }, @url]
      end

      # What it printed, and its exit status.
      def run(command)
        output, theirs = IO.pipe
        pid = Child.start(command, "KILL", in: File::NULL, out: theirs, err: File::NULL)
        theirs.close
        text = output.read
        _, status = Process.wait2(pid)
        ended = true
        [text, status]
      ensure
        [output, theirs].each(&:close)
        end_group(pid) if pid && !ended
      end

      # With what it has started: perf starts the generator.
      def end_group(pid)
        Process.kill(:KILL, -pid)
        Process.wait(pid)
      rescue Errno::ESRCH, Errno::ECHILD
        nil
      end

      def sample(text, status)
        result = JSON.parse(text)
        Sample.new(rate: result.fetch("requests_per_second"), p50: percentile(result, 50.0), p99: percentile(result, 99.0), answers: result.fetch("answers"),
                   failures: result.fetch("failures"), statuses: result.fetch("statuses"), bytes: result["length"], generator: result["generator"], steal: result["steal"])
      rescue JSON::ParserError
        raise Failed, "`paceline bench #{@url}` left no result (#{status})"
      end

      def percentile(result, percent)
        result.fetch("percentiles").find { |one| one["percent"] >= percent - 1e-9 }&.fetch("ms")
      end
    end
  end
end
