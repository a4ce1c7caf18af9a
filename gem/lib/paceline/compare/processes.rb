# frozen_string_literal: true

require_relative "../server/process_stat"

module Paceline
  module Compare
    # What the kernel counts of a server's processes: those below one pid, their processor time and context switches. Reads /proc and clocks,
    # needs no rights beyond the owner's, and never signals a process.
    module Processes
      # One look. CPU: {pid => seconds}; SWITCHES: {thread => count}.
      Reading = Struct.new(:cpu, :switches)
      # Between two looks. REPLACED: whether a process began or ended, so that a part may be missing.
      Use = Struct.new(:cpu, :switches, :replaced, keyword_init: true)
      # The kernel's number of the clock of a process, which counts its threads that have ended, too (MAKE_PROCESS_CPUCLOCK, CPUCLOCK_SCHED).
      SCHEDULED = 2
      private_constant :SCHEDULED

      module_function

      # PID and all processes below it.
      def tree(pid, parents = self.parents)
        children = parents.keys.group_by { |child| parents[child] }
        found = []
        waiting = [pid]
        while (one = waiting.shift)
          found << one
          waiting.concat(children.fetch(one, []))
        end
        found
      end

      def read(pids)
        cpu = pids.to_h { |pid| [pid, cpu(pid)] }.compact
        switches = pids.flat_map { |pid| Dir["/proc/#{pid}/task/*/status"] }.to_h { |path| [path[%r{task/(\d+)}, 1].to_i, switches(path)] }
        Reading.new(cpu, switches.compact)
      end

      def difference(before, after)
        cpu = after.cpu.sum { |pid, seconds| seconds - before.cpu.fetch(pid, 0.0) }
        switches = after.switches.sum { |thread, count| count - before.switches.fetch(thread, 0) }
        Use.new(cpu: cpu, switches: switches, replaced: before.cpu.keys.sort != after.cpu.keys.sort)
      end

      # {pid => its parent's}
      def parents
        Dir.children("/proc").grep(/\A\d+\z/).to_h { |pid| [pid.to_i, Server::ProcessStat.of(pid)&.parent] }.compact
      end

      def cpu(pid)
        Process.clock_gettime((~pid << 3) | SCHEDULED)
      rescue SystemCallError
        nil
      end

      def switches(path)
        File.read(path).scan(/^(?:non)?voluntary_ctxt_switches:\s+(\d+)/).sum { |(count)| count.to_i }
      rescue SystemCallError
        nil
      end
    end
  end
end
