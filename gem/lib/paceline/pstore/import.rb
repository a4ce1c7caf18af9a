# frozen_string_literal: true

require_relative "trust"

module Paceline
  class PStore
    # Takes over a file of Ruby's PStore: its roots become records in a new file, which is put in its place when it is whole and on the disk.
    # The old one stays beside it as `FILE.bak`. Whoever has its lock is waited for.
    module Import
      HEAD = "\x04\x08".b
      # Roots that are written together.
      SLICE = 1000
      private_constant :HEAD, :SLICE

      module_function

      def marshal?(path)
        File.file?(path) && File.binread(path, 2) == HEAD
      end

      # Raises Error if the file is not one of PStore's, or not to be trusted; then all stays as it was.
      def call(path, trust: false)
        path = File.realpath(path)
        File.open(path, File::RDWR | File::BINARY) do |file|
          file.flock(File::LOCK_EX)
          # Somebody else has done it meanwhile.
          return unless File.stat(path).ino == file.stat.ino && marshal?(path)

          Trust.check(path, file.stat) unless trust
          table = Marshal.load(file.read)
          raise Error, "PStore file seems to be corrupted." unless table.is_a?(Hash)

          temporary = "#{path}.import"
          remove(temporary)
          write(temporary, table, file.stat)
          File.open(temporary, &:fsync)
          remove("#{path}-lock")
          File.unlink("#{path}.bak") if File.exist?("#{path}.bak")
          File.link(path, "#{path}.bak")
          File.rename(temporary, path)
          File.open(File.dirname(path), &:fsync)
        ensure
          remove("#{path}.import")
        end
      end

      def write(path, table, stat)
        File.open(path, File::WRONLY | File::CREAT | File::EXCL, stat.mode & 0o777) { |file| file.chown(stat.uid, stat.gid) if Process.euid.zero? }
        records = Records.at(path)
        fresh = records.snapshot do |now|
          roots = Table.new(now)
          table.each { |name, value| roots[name] = value }
          roots.changes
        end
        fresh.each_slice(SLICE) { |slice| records.commit(slice.to_h) }
      ensure
        Records.forget(path)&.close
      end

      def remove(path)
        [path, "#{path}-lock"].each { |file| File.unlink(file) if File.exist?(file) }
      end
    end
    private_constant :Import
  end
end
