# frozen_string_literal: true

# A running server whose main process may be another one later: it is told by its pid file, and everything of it is ended in the end.
require_relative "ways"
require_relative "../lib/running_server"

module Bench
  class RestartedServer < RunningServer
    def signal_main(name)
      Process.kill(name, main)
    rescue Errno::ESRCH
      nil # what it was told before has ended it: the failures show it
    end

    # Runs `paceline WORDS` beside the server, as who deploys does. Not the server's own memory.
    def command_beside(*words, app)
      @beside&.join
      pid = Process.spawn(environment, Servers.paceline, *words, chdir: app.directory, in: File::NULL, %i[out err] => [File.join(@work, "beside.log"), "a"])
      @beside = Thread.new { @processes.own(pid) { Process.wait2(pid)[1].exitstatus } }
    end

    # Has APP pushed by whatever deploys it, beside the server.
    def push_beside(app)
      @beside&.join
      pid = app.begin_push
      @beside = Thread.new { @processes.own(pid) { Process.wait2(pid)[1].exitstatus } }
    end

    def command
      super.map { |word| word == RestartWays::ROOT ? @app.directory : word }
    end

    # How the last command ended; nil without one.
    def command_status = @beside&.value

    # Bytes of all processes: what is private to one, and each one's share of all.
    def sizes
      all = processes.keys.map { |pid| @processes.memory(pid) }
      [all.sum(&:private_dirty), all.sum(&:proportional)]
    end

    def stop
      return unless @pid

      command_status
      Processes.signal("TERM", [main, *@processes.children(Process.pid)].uniq & @processes.tree.keys)
      @pid = nil if gone_within(STOP_LIMIT)
      super
    end

    private

    # The pid file may be missing for a moment while the process changes.
    def main
      path = File.join(@work, "pid")
      pid = File.exist?(path) ? File.read(path).to_i : 0
      pid.positive? ? @pid_told = pid : (@pid_told || @pid)
    rescue Errno::ENOENT
      @pid_told || @pid
    end
  end
end
