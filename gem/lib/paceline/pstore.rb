# frozen_string_literal: true

# `require "paceline/pstore"`: a PStore whose transactions cost what they touch, and which loses nothing. Guide: docs/pstore.md.
# Ruby's own is needed for the name of its error only, which programs rescue. It becomes a gem: Ruby 3.4 warns of that, and a bundle may lack it.
begin
  verbose, $VERBOSE = $VERBOSE, nil
  require "pstore"
rescue LoadError
  nil
ensure
  $VERBOSE = verbose
end
require_relative "records"
require_relative "pstore/names"
require_relative "pstore/plain_file"
require_relative "pstore/record_file"
require_relative "pstore/stand_in"

module Paceline
  # Ruby's PStore (pstore 0.2: all of its API and errors) on Records: each root is a record of its own. A transaction reads the roots that
  # it asks for and writes those that it has changed; readers never wait, and see the store as it was when their transaction began.
  class PStore
    VERSION = "0.2.1"
    Error = defined?(::PStore::Error) ? ::PStore::Error : Class.new(StandardError)

    class << self
      # Makes ::PStore this class, for code that names it. Subclasses that were made before, as YAML::Store, stay what they are.
      def replace!
        return self if defined?(::PStore) && ::PStore.equal?(self)

        Object.send(:remove_const, :PStore) if defined?(::PStore)
        Object.const_set(:PStore, self)
      end
    end

    # Whether a committed transaction also outlives a power failure: true waits for the disk. Default false: it outlives every process, also
    # one that is killed.
    attr_accessor :ultra_safe

    # `file`: made by the first transaction that writes. A file of Ruby's PStore is taken over then, and kept as `file.bak`.
    # `thread_safe`: whether a second thread waits for its turn, instead of getting an error.
    # `format`: `:records`, or `:marshal` for the single plain file that other programs read; default: `:marshal` in a subclass that has a
    # `dump` or `load` of its own, as YAML::Store, else `:records`. Without the native part of the gem, which records need, the default is Ruby's plain file,
    # which is taken over where there is one.
    # `trust`: whether a file may be loaded that belongs to another user, or that everybody may write to. What is in it can run code.
    # Raises Error if the folder is not there, or the file can't be read.
    def initialize(file, thread_safe = false, format: nil, trust: false)
      folder = File.dirname(file)
      raise Error, "directory #{folder} does not exist" unless File.directory?(folder)
      raise Error, "file #{file} not readable" if File.exist?(file) && !File.readable?(file)

      @filename = file
      @thread_safe = thread_safe
      @ultra_safe = false
      @abort = false
      @lock = Thread::Mutex.new
      @backend = backend_class(format).new(self, file, trust: trust)
    end

    # The value of a root, or nil. Whatever is changed in it is saved with the transaction.
    def [](name)
      in_transaction
      @table[name]
    end

    # The value of a root. Without such a root it returns `default`, or raises Error.
    def fetch(name, default = Error)
      in_transaction
      return @table[name] if @table.key?(name)
      raise Error, "undefined key '#{name}'" if default == Error

      default
    end

    def []=(name, value)
      in_transaction_wr
      @table[name] = value
    end

    # Returns what the root was.
    def delete(name)
      in_transaction_wr
      @table.delete(name)
    end

    # The names of all roots, in the order in which they came.
    def keys
      in_transaction
      @table.keys
    end
    alias roots keys

    def key?(name)
      in_transaction
      @table.key?(name)
    end
    alias root? key?

    def path
      @filename
    end

    # Ends the transaction here, with what was changed.
    def commit
      in_transaction
      @abort = false
      throw :pstore_abort_transaction
    end

    # Ends the transaction here, as if nothing had been changed.
    def abort
      in_transaction
      @abort = true
      throw :pstore_abort_transaction
    end

    # Yields the store: what is changed in the block is saved when it ends, all of it or, after an exception or `abort`, nothing. Returns what
    # the block returned. Raises Error within another transaction of this store, and Records::Error if the file can't be used.
    def transaction(read_only = false)
      value = nil
      nested = @lock.owned?
      locked = false
      begin
        lock
        locked = true
        @rdonly = read_only
        @abort = false
        @backend.transaction(read_only) do |table|
          @table = table
          catch(:pstore_abort_transaction) { value = yield(self) }
          !@abort && !read_only
        end
      ensure
        # Timeout may raise when `lock` has just returned.
        if locked || (!nested && @lock.owned?)
          @table = nil
          @lock.unlock
        end
      end
      value
    end

    private

    def lock
      if @thread_safe
        begin
          @lock.lock
        rescue ThreadError
          raise Error, "nested transaction"
        end
      else
        raise Error, "nested transaction" unless @lock.try_lock
      end
    end

    def in_transaction
      raise Error, "not in transaction" unless @lock.locked?
    end

    def in_transaction_wr
      in_transaction
      raise Error, "in read-only transaction" if @rdonly
    end

    def backend_class(format)
      own = %i[dump load].any? { |name| PStore.instance_method(name).owner != method(name).owner }
      case format || (own ? :marshal : :records)
      when :records then format || NativePart.store? ? RecordFile : StandIn
      when :marshal then PlainFile
      else raise ArgumentError, "format: must be :records or :marshal"
      end
    end

    # For subclasses: the whole table as a String, and back. With one of these overridden the store is a plain file of that format.
    def dump(table)
      Marshal.dump(table)
    end

    def load(content)
      Marshal.load(content)
    end
  end
end
