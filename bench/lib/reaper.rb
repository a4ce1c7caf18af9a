# frozen_string_literal: true

# Starts a command below a process of its own, which adopts whatever the command leaves behind: several servers can run at once, and every
# process below that one, daemons and orphans too, is that server's and no other's.
require_relative "processes"

module Bench
  class Reaper
    # Seconds that a server has to stop by itself when the benchmark was killed.
    STOP_LIMIT = 5

    class Failed < StandardError; end

    # PID: of the process that adopts; CHILD: of the command.
    attr_reader :pid, :child

    # ARGUMENTS are those of Process.spawn.
    def initialize(*arguments)
      @told, telling = IO.pipe
      @pid = fork do
        @told.close
        adopt(telling, arguments)
      ensure
        exit!(0)
      end
      telling.close
      line = @told.gets.to_s
      @child = line.to_i
      raise Failed, line.strip unless @child.positive?
    end

    # Whether the command has ended. What it left behind may still run.
    def ended?
      @ended ||= !@told.closed? && !IO.select([@told], nil, nil, 0).nil?
    end

    # Waits for the process that adopts, which ends when nothing is left below it.
    def wait
      Process.waitpid(@pid)
      @told.close
    end

    private

    def adopt(telling, arguments)
      Process.setproctitle("bin/bench: reaper")
      processes, child = Processes.new, nil
      # The terminal's signals are for the benchmark, which stops the servers. Blocks, unlike IGNORE, are not inherited.
      %w[INT HUP].each { |signal| trap(signal) { nil } }
      trap("TERM") { Thread.new { stop(processes, child) } }
      processes.adopt_orphans
      processes.end_with_parent
      child = Process.spawn(*arguments)
      telling.puts child
      telling.flush
      loop { telling.close if Process.wait == child }
    rescue Errno::ECHILD
      nil # nothing is left
    rescue SystemCallError => e
      telling.puts e.message
    end

    # The benchmark is gone: so must be the server.
    def stop(processes, child)
      Processes.signal("TERM", [*child])
      sleep STOP_LIMIT
      Processes.signal("KILL", processes.tree.keys)
    end
  end
end
