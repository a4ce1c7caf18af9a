# frozen_string_literal: true

require_relative "trust"
require_relative "../uninterrupted"

module Paceline
  class PStore
    # A PStore in the single plain file of Ruby's own, for other programs that read it and for subclasses with a format of theirs. Every
    # transaction reads all of it, and one that changes something writes all of it. Other than Ruby's it writes a new file and puts it in the
    # old one's place, so that nobody ever sees half of one, and who has waited for the lock makes sure that it is of the file that is there.
    class PlainFile
      def initialize(store, path, trust:)
        @store = store
        @path = path
        @trust = trust
      end

      def transaction(read_only, &block)
        loop do
          file = open_file(read_only)
          return yield({}) if file.nil?

          begin
            file.flock(read_only ? File::LOCK_SH : File::LOCK_EX)
            return use(file, &block) if same?(file)
          ensure
            file.close
          end
        end
      end

      private

      # Nil if there is none to be read.
      def open_file(read_only)
        File.new(@path, (read_only ? File::RDONLY : File::RDWR | File::CREAT) | File::BINARY)
      rescue Errno::ENOENT
        raise unless read_only
      end

      # Yields the table of the locked file, and saves it if the block returns true.
      def use(file)
        Trust.check(@path, file.stat) unless @trust || file.stat.size.zero?
        content = file.read
        table = content.empty? ? {} : @store.__send__(:load, content)
        raise Error, "PStore file seems to be corrupted." unless table.is_a?(Hash)
        return unless yield(table)

        written = @store.__send__(:dump, table)
        replace(file, written) unless written == content
      end

      # Whether it was not replaced while the lock was waited for.
      def same?(file)
        now = File.stat(@path)
        now.ino == file.stat.ino && now.dev == file.stat.dev
      rescue Errno::ENOENT
        false
      end

      def replace(file, content)
        path = File.symlink?(@path) ? File.realpath(@path) : @path
        # Whoever has the lock is alone here; who was killed in between has left it.
        temporary = "#{path}.pstore-tmp"
        remove(temporary)
        stat = file.stat
        File.open(temporary, File::WRONLY | File::CREAT | File::EXCL | File::BINARY, stat.mode & 0o777) do |new|
          new.chmod(stat.mode & 0o777)
          new.chown(stat.uid, stat.gid) if Process.euid.zero?
          new.write(content)
          new.fsync if @store.ultra_safe
        end
        # From then on the next one has the lock.
        Thread.handle_interrupt(UNINTERRUPTED) { File.rename(temporary, path) && temporary = nil }
        File.open(File.dirname(path), &:fsync) if @store.ultra_safe
      ensure
        # Neither an end of the thread nor Timeout is an exception that could be rescued.
        remove(temporary) if temporary
      end

      def remove(path)
        File.unlink(path)
      rescue Errno::ENOENT
        nil
      end
    end
    private_constant :PlainFile
  end
end
