# frozen_string_literal: true

# Clients that ask again and again, with a pause for thought between an answer and the next request, while the server under them
# is restarted: each request is noted with its time and what came of it. They are played by crates/bench (steady.rs) in a process of its own.
#
# Half of the clients keep their connection. One that the server closes while its client is thinking is opened again and no
# failure, since HTTP allows it at any time; everything else that is not the right answer, "v" and a number, is one.
require "json"
require_relative "../lib/loadgen"
require_relative "../lib/processes"

module Bench
  class SteadyLoad
    # One request: when it began and ended (CLOCK_MONOTONIC seconds), whether over a kept connection, and either the version that answered
    # or what went wrong.
    Request = Struct.new(:began, :ended, :kept, :version, :failure)
    # Kept connections that were closed between requests are counted apart.
    Result = Struct.new(:requests, :closed_idle, :own_cpu)

    def initialize(port:, clients: 25, think: 0.1)
      @plan = [port, clients, (think * 1000).round].join(" ")
    end

    # Starts the child. `versions` then gives a line with a number each time another version answers than before.
    def start
      @before = Process.times
      input, @stop = IO.pipe
      @results, output = IO.pipe
      @pid = Process.spawn(*Processes.ending_with_us("KILL"), Loadgen.program, "steady", in: input, out: output)
      [input, output].each(&:close)
      @versions, telling = IO.pipe
      @stop.puts(@plan)
      # It says when it began, by a clock of its own.
      @epoch = now - @results.gets.to_s[/\Abegan (\S+)/, 1].to_f
      @reader = Thread.new { read(telling) }
      self
    end

    attr_reader :pid, :versions

    # Lets what is under way come to its end; all that was noted.
    def stop
      @stop.close
      found = @reader.value or raise "the load generator failed"
      Process.waitpid(@pid)
      @pid = nil
      after = Process.times
      requests = found["requests"].map { |began, ended, kept, version, failure| Request.new(@epoch + began, @epoch + ended, kept, version, failure) }
      Result.new(requests, found["closed_idle"], after.cutime + after.cstime - @before.cutime - @before.cstime)
    ensure
      kill
    end

    def kill
      return unless @pid

      Process.kill("KILL", @pid)
      Process.waitpid(@pid)
      @pid = nil
    rescue Errno::ESRCH, Errno::ECHILD
      @pid = nil
    end

    private

    # The result, which is the last line.
    def read(telling)
      found = nil
      while (line = @results.gets)
        number = line[/\Aversion (\d+)/, 1]
        number ? telling.puts(number) : found = JSON.parse(line)
      end
      found
    ensure
      telling.close
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
