# frozen_string_literal: true

require_relative "trust"

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

      def transaction(read_only)
        file = locked(read_only)
        return yield({}) if file.nil?

        begin
          Trust.check(@path, file.stat) unless @trust || file.stat.size.zero?
          content = file.read
          table = content.empty? ? {} : @store.__send__(:load, content)
          raise Error, "PStore file seems to be corrupted." unless table.is_a?(Hash)
          return unless yield(table)

          written = @store.__send__(:dump, table)
          replace(file, written) unless written == content
        ensure
          file.close
        end
      end

      private

      # The file with its lock, shared for reading; nil if there is none to be read.
      def locked(read_only)
        loop do
          file = File.new(@path, (read_only ? File::RDONLY : File::RDWR | File::CREAT) | File::BINARY)
          begin
            file.flock(read_only ? File::LOCK_SH : File::LOCK_EX)
            return file if same?(file)
          rescue Exception
            file.close
            raise
          end
          file.close
        end
      rescue Errno::ENOENT
        raise unless read_only
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
        temporary = "#{path}.tmp.#{Process.pid}.#{Thread.current.object_id}"
        stat = file.stat
        File.open(temporary, File::WRONLY | File::CREAT | File::EXCL | File::BINARY, stat.mode & 0o777) do |new|
          new.chmod(stat.mode & 0o777)
          new.chown(stat.uid, stat.gid) if Process.euid.zero?
          new.write(content)
          new.fsync if @store.ultra_safe
        end
        File.rename(temporary, path)
        File.open(File.dirname(path), &:fsync) if @store.ultra_safe
      rescue Exception
        File.unlink(temporary) if temporary && File.exist?(temporary)
        raise
      end
    end
    private_constant :PlainFile
  end
end
