# frozen_string_literal: true

require_relative "native" unless defined?(Paceline::Native)

module Paceline
  # Records by key in one file that many processes and threads use at once (crates/store: LMDB). What PStore, the session store and the
  # cache store are made of; of no use to anybody else. One of these for each file and process, whoever asks: `Records.at(path)`.
  #
  # Keys have 1 to 511 bytes; keys and values are binary Strings. Reading never waits. Who writes what depends on what was read holds
  # `exclusively` meanwhile; a lone `commit` needs no lock.
  class Records
    # Why a store can't be used, in words for whoever runs the application.
    class Error < StandardError; end
    # The file, or a record in it, is not what was written. Nothing was changed.
    class Damaged < Error; end
    # The file is something else.
    class Foreign < Error; end
    # There is no room on the disk. Nothing was changed.
    class Full < Error; end
    # The key is longer than 511 bytes.
    class LongKey < Error; end

    # By the numbers of crates/store/src/ffi.rs.
    KINDS = [nil, Damaged, Foreign, Full, LongKey, Error, Error].freeze
    # A file of up to so many bytes is looked at whole when it is opened.
    VERIFY_UP_TO = 64 * 1024 * 1024
    # Files that one process has open at once, four descriptors each, unless more are in use.
    MOST_OPEN = 64
    GONE = 0xFFFF_FFFF
    private_constant :KINDS, :VERIFY_UP_TO, :MOST_OPEN, :GONE

    @all = {}
    @open = []
    @mutex = Thread::Mutex.new

    class << self
      # The records of this file, which is made if it is not there. `most`: bytes that the file may grow to, by whoever asks first in this
      # process; default: as large as it gets. Raises Error.
      def at(path, most: nil)
        path = File.join(File.realpath(File.dirname(path)), File.basename(path))
        path = File.realpath(path) if File.symlink?(path)
        @mutex.synchronize { @all[path] ||= new(path, most) }
      end

      # Reads the whole structure of the file, however large it is. Raises Damaged or Foreign.
      def verify(path)
        File.open(path, File::RDONLY | File::BINARY) do |file|
          file.flock(File::LOCK_EX)
          Native::Store.verify(path)
        end
      rescue Native::StoreError => e
        raise KINDS[e.kind] || Error, "#{path}: #{e.message}"
      end

      def forget(path)
        @mutex.synchronize { @all.delete(path) }
      end

      # These have just been opened: of too many the oldest go that nobody uses.
      def opened(records)
        others = @mutex.synchronize do
          @open.delete(records)
          @open << records
          @open.first([@open.size - MOST_OPEN, 0].max)
        end
        others.each { |other| @mutex.synchronize { @open.delete(other) } if other.close_if_idle }
      end
    end
    private_class_method :new

    attr_reader :path

    def initialize(path, most)
      unless Native.is_a?(Module) && Native.const_defined?(:Store)
        raise Error, "this needs the native part of the gem paceline, which is not built for this Ruby: install cargo, then the gem again (in a checkout: bin/native)"
      end
      @path = path
      @most = most
      @mutex = Thread::Mutex.new
      @writing = Thread::Mutex.new
      @users = 0
    end

    # The value of a key now, or nil.
    def [](key)
      snapshot { |now| now.get(key) }
    end

    # Yields a view of the records as they are now: `get(key)`, `count`, `used` (bytes of the pages that they fill),
    # `scan(from, limit)` (pairs of key and value, in the order of keys). It stays the same until the block ends, which should not be long:
    # the file grows meanwhile. `stat`: the file's, if the caller has it.
    def snapshot(stat = nil)
      using(stat) do |store|
        now = store.snapshot
        begin
          yield now
        ensure
          now.release
        end
      end
    rescue Native::StoreError => e
      raise wrapped(e)
    end

    # Writes all of these or none: a Hash of keys to values, or nil for what is to go. They outlive any process from here on; with `sync`
    # also a power failure. Raises Full when there is no room.
    def commit(changes, sync: false)
      return if changes.empty?

      batch = String.new(capacity: 64, encoding: Encoding::BINARY)
      changes.each do |key, value|
        [key.bytesize, value ? value.bytesize : GONE].pack("VV", buffer: batch) << key
        batch << value if value
      end
      using { |store| store.commit(batch, sync) }
    rescue Native::StoreError => e
      raise wrapped(e)
    end

    # While the block runs nobody else, of this or another process, is in such a block for this file, which stays the one that is read and
    # written. Raises ThreadError if this thread is already. `stat`: the file's, if the caller has it.
    def exclusively(stat = nil)
      @writing.synchronize do
        loop do
          using(stat) do |store|
            file = @file
            file.flock(File::LOCK_EX)
            begin
              # Another may have taken its place while this waited.
              if current? && file.equal?(@file)
                @held = store
                return yield
              end
            ensure
              @held = nil
              # A process that was forked within the block has the same lock, which goes with whoever unlocks first: not the child.
              file.flock(File::LOCK_UN) if store.ours?
            end
          end
          stat = nil
        end
      end
    end

    # Bytes that the records take.
    def size
      using(&:size)
    end

    # Gives file and memory back. The next use opens it again.
    def close
      @mutex.synchronize { close_store }
    end

    # The same, unless somebody is using it right now. Returns whether it is closed.
    def close_if_idle
      return unless @mutex.try_lock

      begin
        return unless @users.zero?

        close_store
        true
      ensure
        @mutex.unlock
      end
    end

    private

    # Yields the open store. It stays open meanwhile, whatever is opened besides.
    def using(stat = nil)
      # Within `exclusively` it is open, and the file is looked at already.
      held = @held
      return yield(held) if held && @writing.owned? && held.ours?

      store = @mutex.synchronize do
        @users += 1 if (opened = current?(stat) ? @store : open_store)
        opened
      end
      begin
        yield store
      ensure
        @mutex.synchronize { @users -= 1 }
      end
    end

    def close_store
      @store.close if @store&.ours?
      @file&.close
      @store = @file = nil
    end

    # Also after a fork, since what the parent opened is the parent's; and when the file was exchanged or deleted.
    def current?(stat = nil)
      return false unless @store&.ours?

      stat ||= File.stat(@path)
      stat.ino == @inode && stat.dev == @device
    rescue Errno::ENOENT
      false
    end

    def open_store
      # The threads that used it stayed with the parent.
      @users = 0 unless @pid == Process.pid
      @store&.close
      @file&.close
      @store = nil
      @file = File.open(@path, File::RDWR | File::CREAT | File::BINARY)
      # Whoever may use the file may use LMDB's beside it, which LMDB would make for its owner alone.
      beside = "#{@path}-lock"
      fresh = !File.exist?(beside)
      File.open(beside, File::RDWR | File::CREAT, @file.stat.mode & 0o777).close
      @file.flock(File::LOCK_EX)
      begin
        @store = Native::Store.open(@path, VERIFY_UP_TO, @most || 0)
      ensure
        @file.flock(File::LOCK_UN)
      end
      @inode, @device = @file.stat.ino, @file.stat.dev
      @pid = Process.pid
      Records.opened(self)
      @store
    rescue Native::StoreError => e
      File.unlink(beside) if fresh && File.exist?(beside)
      raise wrapped(e)
    end

    def wrapped(error)
      kind = KINDS[error.kind]
      return SystemCallError.new(@path, error.code) if kind.nil? && error.code != 0

      (kind || Error).new("#{@path}: #{error.message}")
    end
  end

  if Native.is_a?(Module) && Native.const_defined?(:StoreError)
    class Native::StoreError
      attr_reader :kind, :code

      def initialize(kind, code, message)
        @kind = kind
        @code = code
        super(message)
      end
    end
  end
end
