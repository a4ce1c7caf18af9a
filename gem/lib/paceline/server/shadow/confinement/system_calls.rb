# frozen_string_literal: true

# The kernel's system calls by their numbers, and a filter of them (seccomp(2)): what changes a file, the machine or another process without opening anything
# for writing, which Landlock does not look at. What it refuses fails with EPERM, in this thread, what it starts and the programs that they run.
require "rbconfig"

module Paceline
  module Server
    module Shadow
      module Confinement
        module SystemCalls
          # AUDIT_ARCH_*, and the numbers (asm/unistd.h) of prctl, seccomp and setitimer.
          Machine = Struct.new(:architecture, :prctl, :seccomp, :setitimer, :numbers)
          # Without a condition each of these is refused: modes, owners, times and attributes of files; shared memory, semaphores and queues; keys; the
          # clock, the machine's names, its modules and mounts; other processes; and what would get around this filter (io_uring).
          REFUSED = %i[
            chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr
            removexattrat utime utimes futimesat utimensat file_setattr open_by_handle_at mq_open mq_unlink msgget msgctl msgrcv msgsnd semget semctl
            semtimedop semop shmget shmctl shmat add_key request_key keyctl settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname
            reboot swapon swapoff init_module finit_module delete_module kexec_load kexec_file_load bpf perf_event_open acct quotactl quotactl_fd syslog
            ptrace process_vm_writev pidfd_getfd mount umount2 pivot_root move_mount open_tree fsopen fsmount fspick mount_setattr userfaultfd io_uring_setup
            migrate_pages move_pages process_madvise process_mrelease
          ].freeze
          # Before Landlock's third version: it does not know how files are shortened.
          SHORTENING = %i[truncate openat2].freeze
          # MSG_FASTOPEN: data that opens a connection. FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR and TIOCSTI. IPPROTO_MPTCP and IPPROTO_SCTP, which Landlock does
          # not know. AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK, by which a resolver asks for the machine's addresses.
          FAST_OPEN = 0x20000000
          IOCTLS = [0x40086602, 0x40046602, 0x401c5820, 0x5412].freeze
          PROTOCOLS = [262, 132].freeze
          FAMILIES = [1, 2, 10, 16].freeze
          # Refused if an argument (its place) has one of these bits, is one of these numbers, or none of them. Other processes' limits, priorities and
          # processors: 0 is this one, but of a group or a user (PRIO_PGRP, PRIO_USER, IOPRIO_WHO_PGRP, IOPRIO_WHO_USER) it is all of them.
          CONDITIONS = [
            [:sendto, 3, :bits, FAST_OPEN], [:sendmsg, 2, :bits, FAST_OPEN], [:sendmmsg, 3, :bits, FAST_OPEN], [:ioctl, 1, :among, IOCTLS],
            [:socket, 2, :among, PROTOCOLS], [:socket, 0, :beyond, FAMILIES], [:prlimit64, 0, :beyond, [0]], [:setpriority, 1, :beyond, [0]],
            [:setpriority, 0, :beyond, [0]], [:ioprio_set, 1, :beyond, [0]], [:ioprio_set, 0, :beyond, [1]], [:sched_setaffinity, 0, :beyond, [0]],
            [:sched_setscheduler, 0, :beyond, [0]], [:sched_setparam, 0, :beyond, [0]], [:sched_setattr, 0, :beyond, [0]]
          ].freeze
          # O_TRUNC
          OF_SHORTENING = [[:open, 1, :bits, 0o1000], [:openat, 2, :bits, 0o1000]].freeze

          X86_64 = { chmod: 90, fchmod: 91, chown: 92, fchown: 93, lchown: 94, fchownat: 260, fchmodat: 268, setxattr: 188, lsetxattr: 189, fsetxattr: 190,
                     removexattr: 197, lremovexattr: 198, fremovexattr: 199, utime: 132, utimes: 235, futimesat: 261, utimensat: 280, truncate: 76,
                     open: 2, openat: 257, open_by_handle_at: 304, mq_open: 240, mq_unlink: 241, msgget: 68, msgsnd: 69, msgrcv: 70, msgctl: 71,
                     semget: 64, semop: 65, semctl: 66, semtimedop: 220, shmget: 29, shmat: 30, shmctl: 31, add_key: 248, request_key: 249, keyctl: 250,
                     settimeofday: 164, clock_settime: 227, adjtimex: 159, clock_adjtime: 305, sethostname: 170, setdomainname: 171, reboot: 169,
                     swapon: 167, swapoff: 168, init_module: 175, finit_module: 313, delete_module: 176, kexec_load: 246, kexec_file_load: 320, bpf: 321,
                     perf_event_open: 298, acct: 163, quotactl: 179, syslog: 103, ptrace: 101, process_vm_writev: 311, mount: 165, umount2: 166,
                     pivot_root: 155, userfaultfd: 323, sendto: 44, sendmsg: 46, sendmmsg: 307, ioctl: 16, socket: 41, prlimit64: 302, setpriority: 141,
                     ioprio_set: 251, sched_setparam: 142, sched_setscheduler: 144, sched_setaffinity: 203, sched_setattr: 314, migrate_pages: 256,
                     move_pages: 279 }.freeze
          AARCH64 = { fchmod: 52, fchmodat: 53, fchownat: 54, fchown: 55, setxattr: 5, lsetxattr: 6, fsetxattr: 7, removexattr: 14, lremovexattr: 15,
                      fremovexattr: 16, utimensat: 88, truncate: 45, openat: 56, open_by_handle_at: 265, mq_open: 180, mq_unlink: 181, msgget: 186,
                      msgctl: 187, msgrcv: 188, msgsnd: 189, semget: 190, semctl: 191, semtimedop: 192, semop: 193, shmget: 194, shmctl: 195, shmat: 196,
                      add_key: 217, request_key: 218, keyctl: 219, settimeofday: 170, clock_settime: 112, adjtimex: 171, clock_adjtime: 266,
                      sethostname: 161, setdomainname: 162, reboot: 142, swapon: 224, swapoff: 225, init_module: 105, finit_module: 273,
                      delete_module: 106, kexec_load: 104, kexec_file_load: 294, bpf: 280, perf_event_open: 241, acct: 89, quotactl: 60, syslog: 116,
                      ptrace: 117, process_vm_writev: 271, mount: 40, umount2: 39, pivot_root: 41, userfaultfd: 282, sendto: 206, sendmsg: 211,
                      sendmmsg: 269, ioctl: 29, socket: 198, prlimit64: 261, setpriority: 140, ioprio_set: 30, sched_setparam: 118,
                      sched_setscheduler: 119, sched_setaffinity: 122, sched_setattr: 274, migrate_pages: 238, move_pages: 239 }.freeze
          # Those since Linux 5.0 have the same number on each machine.
          EVERYWHERE = { fchmodat2: 452, setxattrat: 463, removexattrat: 466, file_setattr: 469, quotactl_fd: 443, pidfd_getfd: 438, open_tree: 428,
                         move_mount: 429, fsopen: 430, fsmount: 432, fspick: 433, mount_setattr: 442, io_uring_setup: 425, openat2: 437,
                         process_madvise: 440, process_mrelease: 448 }.freeze
          MACHINES = { "x86_64" => Machine.new(0xC000003E, 157, 317, 38, X86_64.merge(EVERYWHERE)),
                       "aarch64" => Machine.new(0xC00000B7, 167, 277, 103, AARCH64.merge(EVERYWHERE)) }.freeze
          PR_SET_NO_NEW_PRIVS = 38
          ITIMER_PROF = 2
          SET_MODE_FILTER = 1
          # Of struct seccomp_data.
          NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
          # BPF: load a word, jump if equal, if not below, if bits are set, and return.
          LOAD, EQUAL, NOT_BELOW, BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
          ALLOW, REFUSE = 0x7fff0000, 0x00050000
          # From here on the numbers of x86_64 mean another way to call (x32).
          X32 = 0x40000000
          private_constant(*constants(false) - [:REFUSED])

          class << self
            # Whether this machine's numbers are known.
            def known?
              !machine.nil?
            end

            # Returns what the kernel returns. A String stands for the address of its bytes. Raises SystemCallError, NotImplementedError.
            def call(number, *arguments)
              verbose, $VERBOSE = $VERBOSE, nil # it is deprecated, and warns
              # Ruby itself takes no bytes of value 0 here.
              Kernel.syscall(number, *arguments.map { |one| one.is_a?(String) ? [one].pack("P").unpack1("J") : one })
            ensure
              $VERBOSE = verbose
            end

            # From here on no program gets other rights by its file's mode (setuid): the kernel asks for this before the rest. Raises SystemCallError.
            def renounce_privileges
              call(machine.prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            end

            # From here on SIGPROF comes for each so many microseconds of processor time that this process takes; 0: no more. Raises SystemCallError.
            def profile_each(microseconds)
              call(machine.setitimer, ITIMER_PROF, [0, microseconds, 0, microseconds].pack("q4"), 0)
            end

            # `shortening`: whether calls that shorten files are refused as well. Raises SystemCallError.
            def filter(shortening:)
              program = assemble(REFUSED + (shortening ? SHORTENING : []), CONDITIONS + (shortening ? OF_SHORTENING : []))
              instructions = program.map { |one| one.pack("SCCL") }.join
              # struct sock_fprog: how many, and where.
              call(machine.seccomp, SET_MODE_FILTER, 0, [program.size].pack("Sx6") + [instructions].pack("P"))
            end

            private

            def machine
              MACHINES[RbConfig::CONFIG["host_cpu"]]
            end

            def assemble(refused, conditions)
              refusal = [RETURN, 0, 0, REFUSE | Errno::EPERM::Errno]
              head = [[LOAD, 0, 0, ARCHITECTURE], [EQUAL, 1, 0, machine.architecture], [RETURN, 0, 0, REFUSE | Errno::ENOSYS::Errno], [LOAD, 0, 0, NUMBER],
                      [NOT_BELOW, 0, 1, X32], [RETURN, 0, 0, REFUSE | Errno::ENOSYS::Errno]]
              numbers = refused.filter_map { |name| machine.numbers[name] }
              plain = numbers.flat_map { |number| [[EQUAL, 0, 1, number], refusal] }
              checked = conditions.flat_map { |name, *condition| machine.numbers[name] ? conditional(machine.numbers[name], refusal, *condition) : [] }
              head + plain + checked + [[RETURN, 0, 0, ALLOW]]
            end

            def conditional(number, refusal, place, kind, operand)
              tests = case kind
                      when :bits then [[BITS, 0, 1, operand], refusal]
                      when :among then operand.flat_map { |value| [[EQUAL, 0, 1, value], refusal] }
                      else operand.each_with_index.map { |value, index| [EQUAL, operand.size - index, 0, value] } << refusal
                      end
              body = [[LOAD, 0, 0, ARGUMENTS + 8 * place], *tests, [LOAD, 0, 0, NUMBER]]
              [[EQUAL, 0, body.size, number], *body]
            end
          end
        end
      end
    end
  end
end
