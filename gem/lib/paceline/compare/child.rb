# frozen_string_literal: true

require_relative "../server/parent_death"

module Paceline
  module Compare
    # Starts programs that end with this one: in a session of their own, so that the terminal's Ctrl-C is for this program alone, which stops them; and if it
    # is killed, the kernel sends them a signal. It never waits for one.
    module Child
      module_function

      # The pid of COMMAND, which gets SIGNAL when this program is gone. REDIRECTIONS are those of Process.exec.
      def start(command, signal, environment: {}, **redirections)
        parent = Process.pid
        fork do
          Process.setsid
          %w[INT TERM HUP].each { |name| trap(name, "DEFAULT") }
          Server::ParentDeath.follow(Signal.list.fetch(signal))
          exit!(1) unless Process.ppid == parent
          Process.exec(environment, *command, **redirections)
        rescue SystemCallError => e
          warn "paceline: #{command.first}: #{e.message}"
          exit!(127)
        end
      end
    end
  end
end
