# frozen_string_literal: true

# Too little memory for an application: control groups with a limit, and swap space in a file for what does not fit. As root only. Nothing outside the groups
# is swapped for it; `close` takes the file away.
require "fileutils"
require "tmpdir"
require_relative "../../test/e2e/support/memory_cgroup"

module Bench
  class ScarceMemory
    # Bytes of the file.
    SWAP = 512 << 20
    # Seconds in which the processes of a group must have ended.
    END_LIMIT = 5

    # Why there is none here; nil if there is.
    def self.missing
      new(Dir.tmpdir, 16 << 20).tap { |memory| memory.group(32 << 20) }.close
      nil
    rescue Failed => e
      e.message
    end

    class Failed < StandardError; end

    # FOLDER: on a disk that swap files can lie on. Raises Failed.
    def initialize(folder, bytes = SWAP)
      @groups = []
      @file = File.join(folder, "paceline-bench-#{Process.pid}.swap")
      open_swap(bytes)
    end

    # The words that run a command within BYTES of memory.
    def group(bytes)
      group = MemoryCgroup.make(bytes, swap: SWAP) or raise Failed, "no memory control group can be made here"
      @groups << group
      group.command
    end

    def close
      @groups.each { |group| remove(group) }
      system("swapoff", @file, %i[out err] => File::NULL)
      FileUtils.rm_f(@file)
    end

    private

    # Without holes: the kernel writes past the file system.
    def open_swap(bytes)
      File.open(@file, File::CREAT | File::EXCL | File::WRONLY, 0o600) { |file| (bytes >> 20).times { file.write("\0" * (1 << 20)) } }
      # The least priority: other swap space is used first.
      return if system("mkswap", @file, %i[out err] => File::NULL) && system("swapon", "--priority", "0", @file, %i[out err] => File::NULL)

      FileUtils.rm_f(@file)
      raise Failed, "no swap file can be made here (as root, on a file system that allows it)"
    end

    def remove(group)
      limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + END_LIMIT
      begin
        group.remove
      rescue SystemCallError
        retry if Process.clock_gettime(Process::CLOCK_MONOTONIC) < limit && sleep(0.05)
      end
    end
  end
end
