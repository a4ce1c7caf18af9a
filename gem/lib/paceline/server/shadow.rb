# frozen_string_literal: true

# Shadows: forked copies of the loaded application that answer replayed requests for `paceline doctor` (docs/worker-protocol.md). Forks them, and
# forgets them: a shadow serves no visitor, and the front never hears of it.
require "socket.so"
require_relative "forked_child"

module Paceline
  module Server
    module Shadow
      # Of the names of shadows' folders; the pid of the process that forked it follows.
      PREFIX = "paceline-shadow-"
      # For one to end, s.
      PATIENCE = 1
      private_constant :PREFIX, :PATIENCE

      module_function

      # Forks a shadow of `app`, which connects to the Unix socket at `path`, and returns its pid. `root` and `environment`: of the application.
      # The block runs first in the new process, and closes there what belongs to this one. Without an app the shadow only says so.
      def start(path, app:, root:, environment: "")
        # What JSON and all that the app loads belongs to the app's bundle, so this comes after it.
        require_relative "shadow/copy" if app
        tmpdir = tmpdir_path
        parent = ::Process.pid
        pid = ForkedChild.deliberately do
          ::Process.fork do
            yield if block_given?
            next refuse(path, "the preloader has no application: with preload = false each worker loads its own") unless app
            Copy.new(app: app, root: root, environment: environment, tmpdir: tmpdir).run(path, parent)
          ensure
            exit!(1) # nothing may unwind into the frames of the process that forked
          end
        end
        clean_up_after(pid, tmpdir)
        pid
      end

      # Tells the driver at `path` why there is no shadow. `why`: plain ASCII without quotes.
      def refuse(path, why)
        UNIXSocket.open(path) { |socket| socket.write(%({"error":"#{why}"}\n)) }
      rescue SystemCallError
        nil # there is no driver any more
      end

      # A folder that no other process can guess. It is made when something is to be put there.
      def tmpdir_path
        folder = ENV["TMPDIR"].to_s
        folder = "/tmp" unless File.directory?(folder) && File.writable?(folder)
        folder = File.realpath(folder)
        remove_left_behind(folder)
        File.join(folder, "#{PREFIX}#{::Process.pid}-#{Random.urandom(8).unpack1("H*")}")
      end

      # Folders of shadows that were killed with the process that forked them.
      def remove_left_behind(folder)
        Dir.each_child(folder) do |name|
          pid = name.start_with?(PREFIX) && name.delete_prefix(PREFIX).to_i
          remove(File.join(folder, name)) if pid && pid.positive? && !File.exist?("/proc/#{pid}") && File.owned?(File.join(folder, name))
        end
      rescue SystemCallError
        nil
      end

      # A shadow may be killed, and can't take its folder away then.
      def clean_up_after(pid, tmpdir)
        watched = Thread.new do
          ::Process.wait(pid)
          remove(tmpdir)
        rescue Errno::ECHILD
          nil
        end
        @watched = (@watched || {}).select { |_, thread| thread.alive? }.merge(pid => watched)
      end

      # Ends those of this process, which is about to end, and takes their folders away. In a child of it there are none.
      def end_all
        watched = (@watched || {}).select { |_, thread| thread.alive? }
        watched.each_key { |pid| ::Process.kill(:KILL, pid) } # not waited for yet: it is there
        watched.each_value { |thread| thread.join(PATIENCE) }
      rescue Errno::ESRCH
        nil # it has just been
      end

      def remove(tmpdir)
        return unless File.directory?(tmpdir)

        require "fileutils"
        FileUtils.rm_rf(tmpdir)
      end
    end
  end
end
