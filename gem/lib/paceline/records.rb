# frozen_string_literal: true

require_relative "native" unless defined?(Paceline::Native)
require_relative "uninterrupted"

module Paceline
  # Records by key in one file that many processes and threads use at once (crates/store: LMDB). What PStore, the session store and the
  # cache store are made of; of no use to anybody else. One of these for each file and process, for all callers: `Records.at(path)`.
  #
  # Keys have 1 to 511 bytes; keys and values are binary Strings. Reading never waits. Who writes what depends on what was read holds
  # `exclusively` meanwhile, or says in `commit` what it has read, and begins again if that has changed; a lone `commit` needs no lock.
  class Records
    # Why a store can't be used, in words for the operator.
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
    KINDS = [nil, Damaged, Foreign, Full, LongKey, Error, Error, Error, Error].freeze
    # LMDB has given up what it has open, and it has to be opened again.
    CLOSED = 8
    # A file of up to so many bytes is looked at whole when it is opened and nobody else has it open; a larger one once, after the machine
    # was started.
    VERIFY_UP_TO = 64 * 1024 * 1024
    # Files that one process has open at once, six descriptors each, unless more are in use.
    MOST_OPEN = 64
    GONE = 0xFFFF_FFFF
    private_constant :KINDS, :CLOSED, :VERIFY_UP_TO, :MOST_OPEN, :GONE

    @all = {}
    @open = []
    @mutex = Thread::Mutex.new
    @opening = Thread::Mutex.new

    class << self
      # The records of this file, which is made if it is not there. `max_size`: bytes that the file may grow to, by the first call in this
      # process; default: as large as it gets. Raises Error.
      def at(path, max_size: nil)
        path = File.realdirpath(path)
        @mutex.synchronize { @all[path] ||= new(path, max_size) }
      end

      # Reads the whole structure of the file, however large it is. Whoever writes waits. Raises Damaged or Foreign.
      def verify(path)
        at(path).verify
      end

      # Raises Error where there is no native part. `instead`: what else helps.
      def needed(what = "this", instead: nil)
        return if NativePart.store?

        raise Error, "#{what} needs the native part of the gem paceline: #{[NativePart.missing, instead].compact.join("; or ")}"
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

      # While a file is opened nobody forks: the child would have locks for ever of which nobody knows. A signal's handler may not wait.
      def opening
        alone = false
        begin
          @opening.synchronize do
            alone = true
            return yield
          end
        rescue ThreadError
          raise if alone
        end
        yield
      end

      # In a new child: what the parent has open is of no use here, and would stay in use when the parent has died.
      def forked
        @all.each_value(&:forget_parents)
        @open.clear
      end
    end
    private_class_method :new

    attr_reader :path

    def initialize(path, max_size)
      Records.needed
      @path = path
      @max_size = max_size
      @mutex = Thread::Mutex.new
      @writing = Thread::Mutex.new
      @users = {}.compare_by_identity
      @forks = 0
    end

    # The value of a key now, or nil.
    def [](key)
      snapshot { |now| now.get(key) }
    end

    # Yields a view of the records as they are now: `get(key)`, `count`, `used` (bytes of the pages that they fill),
    # `scan(from, limit)` (pairs of key and value, in the order of keys). It stays the same until the block ends, which should not be long:
    # the file grows meanwhile. `stat`: the file's, if the caller has it.
    def snapshot(stat = nil)
      with_store(stat) do |store|
        now = nil
        begin
          store.snapshot { |begun| now = begun }
          yield now
        ensure
          now&.release
        end
      end
    end

    # Writes all of these or none: a Hash of keys to values, or nil for what is to go. They outlive any process from here on; with `sync`
    # also a power failure. `expected`: a Hash of keys to the values that they must still have (nil: none); if one has another now, nothing
    # is written, and it returns false. Raises Full when there is no room.
    def commit(changes, sync: false, expected: nil)
      return true if changes.empty?

      batch, expected = batch(changes), expected ? batch(expected) : ""
      with_store do |store|
        raise Error, "#{@path}: this process was forked within a transaction, which is its parent's" if @turn == :parents && @writing.owned?

        enter_in_folder if sync && !@entered
        store.commit(expected, batch, sync)
      end
    end

    # While the block runs nobody else, of this or another process, is in such a block for this file, which stays the one that is read and
    # written. Raises ThreadError if this thread is already. `stat`: the file's, if the caller has it.
    def exclusively(stat = nil)
      @writing.synchronize do
        loop do
          using(stat) do |store|
            in_turn(store) { return yield }
          end
          stat = nil
        end
      end
    end

    # Bytes that the records take.
    def size
      using(&:size)
    end

    # Looks at the whole structure of the file. Raises Damaged.
    def verify
      with_store(&:verify)
    end

    # Gives file and memory back. The next use opens it again.
    def close
      @mutex.synchronize { close_store }
    end

    # Closes it unless somebody is using it right now. Returns whether it is closed.
    def close_if_idle
      Thread.handle_interrupt(UNINTERRUPTED) do
        next unless @mutex.try_lock

        begin
          next unless @users.empty?

          close_store
          true
        ensure
          @mutex.unlock
        end
      end
    end

    # In a new child: what it has of what its parent had open.
    def forget_parents
      return if @store.nil? || @store.ours?

      @turn &&= :parents
      @held = nil
      @store.close
      @file&.close
      @store = @file = nil
      @users.clear
      @forks += 1
    end

    private

    # Yields the open store, and a second time if LMDB has given up the first.
    def with_store(stat = nil)
      used = again = nil
      begin
        using(stat) do |store|
          again = used
          used = store
          yield store
        end
      rescue Native::StoreError => e
        raise wrapped(e) unless e.kind == CLOSED && !again

        @mutex.synchronize { close_store if used.equal?(@store) }
        retry
      end
    end

    # Yields the open store. It stays open meanwhile, whatever is opened besides, and whenever this thread is ended.
    def using(stat = nil)
      # Within `exclusively` it is open, and the file is looked at already.
      held = @held
      return yield(held) if held && @writing.owned? && held.ours?

      store = nil
      user = Object.new
      begin
        @mutex.synchronize do
          store = current?(stat) ? @store : open_store
          @users[user] = true
        end
        yield store
      ensure
        # One call of a method in C, and no condition: Ruby ends a thread at a branch, too, and would skip what is left of this.
        @users.delete(user)
      end
    end

    # Yields when the lock of the file is ours, and not at all if another has taken the file's place while this waited. Whatever is raised
    # here, and whenever, the lock is given back: to give back what is not ours does no harm. A child has the lock of its parent, too, and it
    # goes with the process that unlocks first: not the child.
    def in_turn(store)
      forks = @forks
      file = @mutex.synchronize { @turn = @file }
      return if file.nil?

      file.flock(File::LOCK_EX)
      return unless current? && file.equal?(@file)

      @held = store
      yield
    ensure
      Thread.handle_interrupt(UNINTERRUPTED) do
        @held = nil
        give_turn_back if forks == @forks
        @turn = nil
      end
    end

    def give_turn_back
      @turn&.flock(File::LOCK_UN)
    ensure
      @mutex.synchronize { @turn.close unless @turn.nil? || @turn.equal?(@file) }
    end

    # The lock that this process holds on the file stays.
    def close_store
      Thread.handle_interrupt(UNINTERRUPTED) do
        @store&.close
        @store = nil
        next if @turn

        @file&.close
        @file = nil
      end
    end

    # Also after a fork, since what the parent opened is the parent's; and when the file was exchanged or deleted.
    def current?(stat = nil)
      return false unless @file && @store&.ours?

      stat ||= File.stat(@path)
      stat.ino == @inode && stat.dev == @device
    rescue Errno::ENOENT
      false
    end

    def open_store
      Thread.handle_interrupt(UNINTERRUPTED) do
        forget_parents
        @store&.close
        Records.opening { Native::Store.open(@path, VERIFY_UP_TO, @max_size || 0) { |store| @store = store } }
        @device, @inode = @store.identity
        take_file
        @entered = false
        Records.opened(self)
        @store
      end
    rescue Native::StoreError => e
      raise wrapped(e)
    end

    # Records as crates/store/src/ffi.rs reads them.
    def batch(records)
      batch = String.new(capacity: 64, encoding: Encoding::BINARY)
      records.each do |key, value|
        [key.bytesize, value ? value.bytesize : GONE].pack("VV", buffer: batch) << key
        batch << value if value
      end
      batch
    end

    # The file for the lock of `exclusively`. Who has that of the file that was here before, or waits for it, closes it.
    def take_file
      return if @file && (stat = @file.stat).ino == @inode && stat.dev == @device

      old = @file
      @file = nil
      old&.close unless old.equal?(@turn)
      @file = File.open(@path, File::RDONLY | File::BINARY)
    end

    # A power failure must not take the file from its folder either.
    def enter_in_folder
      File.open(File.dirname(@path), &:fsync)
      @entered = true
    end

    def wrapped(error)
      kind = KINDS[error.kind]
      return SystemCallError.new(@path, error.code) if kind.nil? && error.code != 0

      (kind || Error).new("#{@path}: #{error.message}")
    end
  end

  class Records
    # Around every fork.
    module Forks
      def _fork
        pid = Records.opening { super }
        Records.forked if pid.zero?
        pid
      end
    end
  end

  if NativePart.store?
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

Process.singleton_class.prepend(Paceline::Records::Forks)
