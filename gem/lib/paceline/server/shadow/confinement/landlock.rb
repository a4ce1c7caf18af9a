# frozen_string_literal: true

# Landlock (Linux 5.13, landlock(7)): from here on this thread, what it starts and the programs that they run can write only below the folders that are
# named, and, as far as the kernel knows how, open no TCP connection and send no signal to others. It never takes anything back.
require_relative "system_calls"

module Paceline
  module Server
    module Shadow
      module Confinement
        module Landlock
          # Numbers of system calls; each machine's are the same.
          CREATE, ADD, RESTRICT = 444, 445, 446
          # LANDLOCK_CREATE_RULESET_VERSION, and the types of rules.
          VERSION = 1
          BENEATH, PORT = 1, 2
          # The least versions of the interface (ABI) that know how files are shortened, connections and signals.
          SHORTENED_SINCE, TCP_SINCE, SCOPED_SINCE = 3, 4, 6
          # The least version that knows each right to change files: LANDLOCK_ACCESS_FS_*. Reading and running are left alone.
          WRITE_FILE, REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_SYM, REFER, TRUNCATE, IOCTL_DEV =
            [1, 4, 5, 7, 8, 9, 10, 12, 13, 14, 15].map { |bit| 1 << bit }
          MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
          RIGHTS = { 1 => WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_CHAR | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_BLOCK | MAKE_SYM,
                     2 => REFER, SHORTENED_SINCE => TRUNCATE, 5 => IOCTL_DEV }.freeze
          # What a rule for a file, and not for a folder, can give.
          OF_FILE = WRITE_FILE | TRUNCATE | IOCTL_DEV
          # LANDLOCK_ACCESS_NET_CONNECT_TCP; LANDLOCK_SCOPE_*: sockets without a path, and signals.
          CONNECT_TCP = 1 << 1
          SCOPED = 0b11
          # O_PATH | O_CLOEXEC
          PATH_ONLY = 0o12000000
          private_constant :CREATE, :ADD, :RESTRICT, :VERSION, :BENEATH, :PORT, :RIGHTS, :OF_FILE, :CONNECT_TCP, :SCOPED, :PATH_ONLY

          class << self
            # The version of the kernel's interface; 0: it has none, or it is switched off.
            def abi
              SystemCalls.call(CREATE, 0, 0, VERSION)
            rescue SystemCallError, NotImplementedError
              0
            end

            # Confines this thread. `writable`: paths of folders and files, of which those that are not there are left out; `ports`: of TCP connections.
            # Raises SystemCallError.
            def enter(abi, writable:, ports:)
              handled = RIGHTS.sum { |since, rights| since <= abi ? rights : 0 }
              ruleset = create(abi, handled)
              writable.each { |path| allow(ruleset, path, handled) }
              ports.each { |port| SystemCalls.call(ADD, ruleset.fileno, PORT, [CONNECT_TCP, port].pack("QQ"), 0) } if abi >= TCP_SINCE
              SystemCalls.call(RESTRICT, ruleset.fileno, 0)
            ensure
              ruleset&.close
            end

            private

            # The older the interface, the shorter is its struct landlock_ruleset_attr.
            def create(abi, handled)
              attributes = [handled]
              attributes << CONNECT_TCP if abi >= TCP_SINCE
              attributes << SCOPED if abi >= SCOPED_SINCE
              bytes = attributes.pack("Q*")
              IO.for_fd(SystemCalls.call(CREATE, bytes, bytes.bytesize, 0), "r").tap { |ruleset| ruleset.close_on_exec = true }
            end

            def allow(ruleset, path, handled)
              File.open(path, PATH_ONLY) do |file|
                rights = File.directory?(path) ? handled : handled & OF_FILE
                SystemCalls.call(ADD, ruleset.fileno, BENEATH, [rights, file.fileno].pack("Ql"), 0)
              end
            rescue Errno::ENOENT, Errno::ENOTDIR, Errno::ENXIO
              nil
            end
          end
        end
      end
    end
  end
end
