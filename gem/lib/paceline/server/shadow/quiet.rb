# frozen_string_literal: true

# Makes this process one that nobody notices: least priority; what it prints goes nowhere, and what it logs to files without a name, so that logging
# costs what it costs. Files that are open for reading and writing are only read from here on, with places of their own.
module Paceline
  module Server
    module Shadow
      module Quiet
        # A file that a shadow's output is appended to, for those who look for a mistake in an application.
        LOG = "PACELINE_SHADOW_LOG"
        LEAST_PRIORITY = 19
        # Paths of logs that are open for reading, too.
        LOG_PATH = %r{\.log\z|/log/}
        private_constant :LOG, :LEAST_PRIORITY, :LOG_PATH

        module_function

        def become
          ::Process.setpriority(::Process::PRIO_PROCESS, 0, LEAST_PRIORITY)
          die_first
          STDIN.reopen(File::NULL) unless STDIN.closed?
          [1, 2].each { |number| File.open(output, "a") { |file| lead_to(number, file) } }
          both = open_files(File::RDWR).partition { |file| LOG_PATH.match?(path(file)) }
          @logs = (open_files(File::WRONLY) + both.first).map { |log| unnamed_beside(log).tap { |file| lead_to(log.fileno, file) } }
          both.last.each { |file| only_read(file.fileno) }
        end

        # Of a file (its File::Stat) whether what is logged goes there.
        def own?(stat)
          @logs.any? { |log| log.stat.ino == stat.ino && log.stat.dev == stat.dev }
        end

        # Paths of what goes on being written.
        def kept
          [output]
        end

        # Before each request, so that the logs do not grow.
        def empty_logs
          @logs.each { |file| file.truncate(0) if file.stat.file? }
        rescue SystemCallError
          nil
        end

        # Where memory runs out, before any process that serves.
        def die_first
          File.write("/proc/self/oom_score_adj", "1000")
        rescue SystemCallError
          nil
        end

        def output
          ENV[LOG].to_s.empty? ? File::NULL : ENV.fetch(LOG)
        end

        # Changes the descriptor, whatever objects there are for it. What one of them has not written yet is the other process's to write: its
        # buffer goes the new way here.
        def lead_to(number, file)
          IO.for_fd(number, "a", autoclose: false).reopen(file)
        rescue SystemCallError
          nil # closed, or not to be written
        end

        # Changes the descriptor: what is written is refused, and where it is read does not move the other process's place. The object's own way to tell the
        # place would first write what it has not written yet.
        def only_read(number)
          File.open("/proc/self/fd/#{number}", File::RDONLY) do |reading|
            reading.sysseek(File.read("/proc/self/fdinfo/#{number}")[/^pos:\s*(\d+)/, 1].to_i)
            IO.for_fd(number, "r", autoclose: false).reopen(reading)
          end
        rescue SystemCallError
          lead_to(number, File.open(File::NULL, "a")) # it may not be read by its name
        end

        def path(file)
          File.readlink("/proc/self/fd/#{file.fileno}")
        end

        # On the same disk as this log, and gone with this process.
        def unnamed_beside(log)
          folder = File.dirname(path(log))
          File.open(folder, File::WRONLY | File::APPEND | File::TMPFILE, 0o600)
        rescue SystemCallError
          File.open(File::NULL, "a")
        end

        # Files that were opened in this `way`. What the application only writes are its logs.
        def open_files(way)
          ObjectSpace.each_object(File).select do |file|
            !file.closed? && file.fileno > 2 && way?(file, way) && File.stat("/proc/self/fd/#{file.fileno}").file?
          rescue SystemCallError, IOError
            false
          end
        end

        def way?(file, way)
          file_status(file) & (File::RDONLY | File::WRONLY | File::RDWR) == way
        end

        # F_GETFL of fcntl(2) is 3 on Linux.
        def file_status(file)
          file.fcntl(3)
        end
      end
    end
  end
end
