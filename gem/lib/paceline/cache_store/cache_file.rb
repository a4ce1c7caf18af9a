# frozen_string_literal: true

require "fileutils"
require_relative "../records"
require_relative "../trust"

module Paceline
  class CacheStore
    # The file of a cache, looked at before it is believed: it must be this user's, and of this boot of the machine. Commits are not synced, so
    # after a power failure parts of it may be older than others; nobody can tell, and a cache that gives old values is worse than an empty one.
    # What can't be used any more is begun anew. `FILE-boot` says which boot it is of.
    class CacheFile
      BOOT = begin
        File.read("/proc/sys/kernel/random/boot_id").strip.freeze
      rescue SystemCallError
        # Where the system does not say it (not Linux), a file is kept.
        "unknown"
      end
      private_constant :BOOT

      attr_reader :path

      # `log` is called with a line when something is begun anew.
      def initialize(path, size, log)
        @path = path
        @size = size
        @log = log
      end

      # Its Records, and the file's File::Stat. Raises Records::Error, SystemCallError.
      def records
        stat = stat_of_file
        stat = recognise unless stat && @known == [stat.ino, stat.dev, stat.uid, stat.mode]
        [@records, stat]
      end

      # A damaged file is kept as FILE.damaged, to find out why. The next use makes a new one. Returns false if the file was never one
      # of a cache.
      def set_aside(error)
        return false unless @known

        exchange do |file|
          next unless @known[0] == file.stat.ino

          File.rename(@path, "#{@path}.damaged")
          @log.call("#{error.message}; it is begun anew, and the old file kept as #{@path}.damaged")
        end
        true
      end

      # Whoever has it exclusively makes it go. The next use makes a new one.
      def remove
        FileUtils.rm_f(@path)
      end

      private

      def stat_of_file
        File.stat(@path)
      rescue Errno::ENOENT
        nil
      end

      def recognise
        FileUtils.mkdir_p(File.dirname(@path))
        File.open("#{@path}-boot", File::RDWR | File::CREAT, 0o600) do |boot|
          boot.flock(File::LOCK_EX)
          stat = stat_of_file
          said = boot.read
          check(stat, said) if stat
          # Before there is a file, even if a process is killed in between.
          tell(boot) unless said == BOOT
          File.open(@path, File::RDWR | File::CREAT, 0o600) {}
          trust(File.stat(@path))
        end
        @records = Records.at(@path, max_size: @size)
        stat = File.stat(@path)
        @known = [stat.ino, stat.dev, stat.uid, stat.mode]
        stat
      end

      def tell(boot)
        boot.pwrite(BOOT, 0)
        boot.truncate(BOOT.bytesize)
        boot.fsync
      end

      # Makes room for a new file if this one is of no use.
      def check(stat, boot)
        raise Errno::EISDIR, @path if stat.directory?
        return if stat.size.zero?

        trust(stat)
        raise Records::Foreign, "#{@path}: not a cache file, or #{@path}-boot is missing. If it is a cache file, delete it; otherwise name another file" if boot.empty?
        return if boot == BOOT && stat.size <= @size

        why = boot == BOOT ? "it is larger than #{@size} bytes" : "the machine was started anew"
        exchange { remove }
        @log.call("#{@path} is begun anew, since #{why}")
      end

      def trust(stat)
        why = Paceline::Trust.doubt(stat) or return

        raise Untrusted, "#{@path} is not used, because #{why}, and its data could run code. Delete the file, or change its owner"
      end

      # Yields the file, unless another is in its place by then. Nobody writes to it meanwhile.
      def exchange
        File.open(@path, File::RDWR) do |file|
          file.flock(File::LOCK_EX)
          now = stat_of_file
          next unless now && now.ino == file.stat.ino && now.dev == file.stat.dev

          yield file
        end
      rescue Errno::ENOENT
        # Somebody else has.
      end
    end
    private_constant :CacheFile
  end
end
