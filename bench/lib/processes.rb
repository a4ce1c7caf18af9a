# frozen_string_literal: true

# Looks at processes through /proc: who belongs to the server, how much CPU time they used, how much memory is theirs.
#
# The benchmark makes itself the reaper of orphans among its descendants (PR_SET_CHILD_SUBREAPER). So whatever a server
# starts stays below the benchmark, also daemons that leave their session, as Passenger's do, and also processes whose
# title overwrote their environment. All below it but the load generators is the server under measurement.
require "etc"

module Bench
  class Processes
    Stat = Struct.new(:pid, :parent, :state, :ticks, :reaped_ticks)
    Memory = Struct.new(:private_dirty, :proportional, :resident)
    TICKS = Etc.sysconf(Etc::SC_CLK_TCK).to_f
    PR_SET_PDEATHSIG = 1
    PR_SET_CHILD_SUBREAPER = 36
    SYS_PRCTL = { "x86_64" => 157, "aarch64" => 167 }.freeze

    # What /proc/PID/stat says. The command in parentheses may hold spaces and parentheses itself.
    def self.parse_stat(line)
      pid = line.to_i
      fields = line[(line.rindex(")") + 2)..].split
      utime, stime, cutime, cstime = fields[11, 4].map(&:to_i)
      Stat.new(pid, fields[1].to_i, fields[0], utime + stime, cutime + cstime)
    end

    # To each of these processes, of which some may have ended.
    def self.signal(name, pids)
      pids.each do |pid|
        Process.kill(name, pid)
      rescue Errno::ESRCH
        next
      end
    end

    # What /proc/PID/smaps_rollup says, in bytes.
    def self.parse_memory(text)
      Memory.new(*%w[Private_Dirty Pss Rss].map { |name| text[/^#{name}:\s+(\d+) kB/, 1].to_i * 1024 })
    end

    # CPU seconds between two looks. A process that ended and was waited for is in its parent's reaped time, so it counts
    # fully; one that is gone with its parent counts up to the first look only.
    def self.cpu_seconds(before, after)
      ticks = after.sum do |pid, stat|
        was = before[pid]
        now = stat.ticks + stat.reaped_ticks
        was ? now - was.ticks - was.reaped_ticks : now
      end
      # What they had used before the first look comes back in their parent's reaped time.
      ended = before.reject { |pid, stat| after.key?(pid) || !after.key?(stat.parent) }
      ticks -= ended.sum { |_, stat| stat.ticks + stat.reaped_ticks }
      [ticks, 0].max / TICKS
    end

    def initialize(root = Process.pid)
      @root = root
      @own = []
    end

    # Orphans of descendants become children of this process.
    def adopt_orphans
      prctl(PR_SET_CHILD_SUBREAPER, 1)
    end

    # This process gets SIGTERM when its parent ends.
    def end_with_parent
      prctl(PR_SET_PDEATHSIG, Signal.list.fetch("TERM"))
    end

    # PIDS, and what they start, are not the server's while the block runs: a load generator, an origin, an application.
    def own(*pids)
      @own += pids
      yield
    ensure
      @own -= pids
    end

    # Those it has started itself.
    def children(pid)
      everybody.select { |stat| stat.parent == pid }.map(&:pid)
    end

    # The server's processes by pid, without those that ended and wait for their parent.
    def tree
      children = everybody.group_by(&:parent)
      found = {}
      waiting = [@root]
      until waiting.empty?
        some = (children[waiting.pop] || []).reject { |stat| @own.include?(stat.pid) }
        some.each { |stat| found[stat.pid] = stat }
        waiting.concat(some.map(&:pid))
      end
      found.reject { |_, stat| stat.state == "Z" }
    end

    # The tree, and the process that it grows from: a server, where others run beside it.
    def family
      tree.merge(@root => self.class.parse_stat(File.read("/proc/#{@root}/stat")))
    end

    def title(pid)
      File.read("/proc/#{pid}/cmdline").tr("\0", " ").strip
    rescue SystemCallError
      ""
    end

    def memory(pid)
      self.class.parse_memory(File.read("/proc/#{pid}/smaps_rollup"))
    rescue SystemCallError
      Memory.new(0, 0, 0)
    end

    # What to put before a command that shall get SIGNAL when the benchmark is gone, be it killed the hard way.
    def self.ending_with_us(signal)
      @setpriv = system("setpriv", "--pdeathsig", "TERM", "true", %i[out err] => File::NULL) if @setpriv.nil?
      @setpriv ? ["setpriv", "--pdeathsig", signal, "--"] : []
    end

    # Busy seconds of all processors since the machine started. Without interrupts: those are mostly the load's own packets.
    def self.machine_busy(line = File.open("/proc/stat", &:readline))
      user, nice, system, _idle, _iowait, _irq, _softirq, steal = line.split[1, 8].map(&:to_i)
      (user + nice + system + steal) / TICKS
    end

    private

    def prctl(option, value)
      number = SYS_PRCTL[RbConfig::CONFIG["host_cpu"]] or raise "no number of prctl known for this machine"
      verbose, $VERBOSE = $VERBOSE, nil
      syscall(number, option, value, 0, 0, 0)
    ensure
      $VERBOSE = verbose
    end

    def everybody
      Dir.children("/proc").grep(/\A\d+\z/).filter_map do |pid|
        self.class.parse_stat(File.read("/proc/#{pid}/stat"))
      rescue SystemCallError
        nil
      end
    end
  end
end
