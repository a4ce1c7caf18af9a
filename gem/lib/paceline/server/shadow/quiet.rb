# frozen_string_literal: true

# Makes this process one that nobody notices: least priority, and what it prints and logs is formatted and written as ever, to nowhere. It never
# touches a descriptor that something is read from.
module Paceline
  module Server
    module Shadow
      module Quiet
        # A file that a shadow's output is appended to, for those who look for a mistake in an application.
        LOG = "PACELINE_SHADOW_LOG"
        LEAST_PRIORITY = 19
        private_constant :LOG, :LEAST_PRIORITY

        module_function

        def become
          ::Process.setpriority(::Process::PRIO_PROCESS, 0, LEAST_PRIORITY)
          die_first
          STDIN.reopen(File::NULL) unless STDIN.closed?
          [1, 2].each { |number| lead_to(number, log) }
          open_logs.each { |file| lead_to(file.fileno, File::NULL) }
        end

        # Where memory runs out, before any process that serves.
        def die_first
          File.write("/proc/self/oom_score_adj", "1000")
        rescue SystemCallError
          nil
        end

        def log
          ENV[LOG].to_s.empty? ? File::NULL : ENV.fetch(LOG)
        end

        # Changes the descriptor, whatever objects there are for it. What one of them has not written yet is the other process's to write: its
        # buffer goes the new way here.
        def lead_to(number, path)
          io = IO.for_fd(number, "a", autoclose: false)
          File.open(path, "a") { |file| io.reopen(file) }
        rescue SystemCallError
          nil # closed, or not to be written
        end

        # Files that the application only writes: its logs.
        def open_logs
          ObjectSpace.each_object(File).select do |file|
            !file.closed? && file.fileno > 2 && writes_only?(file) && File.stat("/proc/self/fd/#{file.fileno}").file?
          rescue SystemCallError, IOError
            false
          end
        end

        def writes_only?(file)
          file_status(file) & (File::RDONLY | File::WRONLY | File::RDWR) == File::WRONLY
        end

        # F_GETFL of fcntl(2) is 3 on Linux.
        def file_status(file)
          file.fcntl(3)
        end
      end
    end
  end
end
