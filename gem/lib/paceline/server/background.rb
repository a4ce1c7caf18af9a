# frozen_string_literal: true

# Lets this process, and what it forks, have only the processor time that nobody else wants. Never touches another process's share.
module Paceline
  module Server
    module Background
      LEAST_PRIORITY = 19
      # The kernel lets an account change one session's share in a tenth of a second.
      TIMES = 10
      PAUSE = 0.05
      private_constant :LEAST_PRIORITY, :TIMES, :PAUSE

      module_function

      # Linux gives each session the same share of the processors, whatever the priorities of its processes are (sched(7), "The autogroup
      # feature"). So a session of its own with the least share: beside the doctor's terminal, and beside the server's session.
      def become
        ::Process.setpriority(::Process::PRIO_PROCESS, 0, LEAST_PRIORITY)
        ::Process.setsid
        have_least_share
      rescue SystemCallError
        nil # no sessions' shares in this kernel; or it leads a group already, and its parent's session has what share it has
      end

      def have_least_share
        times ||= 0
        File.write("/proc/self/autogroup", LEAST_PRIORITY.to_s)
      rescue Errno::EAGAIN
        return if (times += 1) == TIMES

        sleep PAUSE
        retry
      end
    end
  end
end
