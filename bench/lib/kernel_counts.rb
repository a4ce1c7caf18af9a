# frozen_string_literal: true

# How many system calls and context switches a server's processes make under a load, in a pass of its own that is not timed: counting costs
# something at each of them. perf counts both, in threads and processes that come and go, too. Without it context switches are those in
# /proc/PID/task/*/status, which leave out threads that ended, and system calls are not counted.
require "tmpdir"
require_relative "measurement"

module Bench
  class KernelCounts
    # Of all processes; CALLS nil where they can't be counted.
    Counts = Struct.new(:calls, :switches)
    EVENTS = { calls: "raw_syscalls:sys_enter", switches: "context-switches" }.freeze

    class << self
      attr_writer :missing

      # Why perf does not count, in one line; nil if it does.
      def missing
        @missing = problem unless defined?(@missing)
        @missing
      end
    end

    # What `perf stat -x ,` wrote: {event => count}, without events that it could not count.
    def self.parse(text)
      text.scan(/^(\d+),[^,]*,([^,]+),/).to_h { |count, event| [event.delete_suffix(":u"), count.to_i] }
    end

    # What /proc/PID/task/*/status of PIDS say: {thread => switches}.
    def self.switches(pids)
      pids.flat_map { |pid| Dir["/proc/#{pid}/task/*/status"] }.filter_map do |path|
        [path[%r{task/(\d+)}, 1].to_i, switches_of(File.read(path))]
      rescue SystemCallError
        nil
      end.to_h
    end

    def self.switches_of(status)
      status.scan(/^(?:non)?voluntary_ctxt_switches:\s+(\d+)/).sum { |(count)| count.to_i }
    end

    # Those between two looks; of a thread that was not there before all.
    def self.difference(before, after)
      after.sum { |thread, count| count - before.fetch(thread, 0) }
    end

    def self.problem
      Dir.mktmpdir do |work|
        log = File.join(work, "log")
        done = system("perf", "stat", "-x", ",", "-e", EVENTS.values.join(","), "-o", "#{work}/counts", "--", "true", out: File::NULL, err: log)
        return "perf is not installed (package linux-perf)" if done.nil?
        return if done && parse(File.read("#{work}/counts")).size == EVENTS.size

        "perf may not count (/proc/sys/kernel/perf_event_paranoid is #{File.read("/proc/sys/kernel/perf_event_paranoid").strip}; root may): " \
          "#{File.read(log).lines.map(&:strip).reject(&:empty?).first || "no counts"}"
      end
    end
    private_class_method :problem

    # PIDS: of the server.
    def initialize(pids)
      @pids = pids
    end

    # Counts while the block runs; its value and the Counts.
    def during(&block)
      self.class.missing ? by_proc(&block) : by_perf(&block)
    end

    private

    def by_proc
      before = self.class.switches(@pids)
      value = yield
      [value, Counts.new(nil, self.class.difference(before, self.class.switches(@pids)))]
    end

    # perf says when it has begun to count, and when it has stopped.
    def by_perf
      Dir.mktmpdir do |work|
        control, answers = %w[control answers].map { |name| File.join(work, name).tap { |path| File.mkfifo(path) } }
        perf = Process.spawn("perf", "stat", "-x", ",", "-e", EVENTS.values.join(","), "-D", "-1", "--control", "fifo:#{control},#{answers}", "-p", @pids.join(","),
                             "-o", "#{work}/counts", %i[in out err] => File::NULL)
        # Open for both ends: an end that perf never opens blocks nobody.
        value = File.open(control, "r+") { |told| File.open(answers, "r+") { |heard| between(perf, told, heard) { yield } } }
        perf = finish(perf)
        counts = self.class.parse(File.exist?("#{work}/counts") ? File.read("#{work}/counts") : "")
        [value, Counts.new(*EVENTS.values.map { |event| counts[event] })]
      ensure
        finish(perf) if perf
      end
    end

    def between(perf, told, heard)
      return yield unless tell(perf, told, heard, "enable")

      yield.tap { tell(perf, told, heard, "disable") }
    end

    # Whether perf did it; it may have ended.
    def tell(perf, told, heard, command)
      told.puts(command)
      told.flush
      until IO.select([heard], nil, nil, 0.2)
        return false if ended?(perf)
      end
      heard.readpartial(64)
      true
    end

    # Without reaping it.
    def ended?(pid)
      File.read("/proc/#{pid}/stat").match?(/\) Z /)
    rescue SystemCallError
      true
    end

    def finish(pid)
      Process.kill("INT", pid)
      Process.waitpid(pid)
      nil
    end
  end
end
