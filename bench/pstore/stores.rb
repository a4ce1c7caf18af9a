# frozen_string_literal: true

# The stores that `bin/bench pstore` compares, each as its users have it: `fill` makes so many records, `read` takes one, `update` adds one to the
# counter in it, `counters` reads those of many. A store is of one process, opened when it is first used.
require "fileutils"
require_relative "session"

module Bench
  module PStoreStores
    GEM = File.expand_path("../../gem/lib", __dir__)
    SESSION_STORE = File.expand_path("../../tmp/bench/activerecord-session_store/lib", __dir__)

    # What is there without a store: the record's Marshal.
    class Marshalling
      def initialize(*)
        @session = Marshal.dump(PStoreSession.make(1))
      end

      def fill(_) = nil
      def read(_) = Marshal.load(@session)

      def update(_)
        found = Marshal.load(@session)
        found["counter"] += 1
        Marshal.dump(found)
      end
    end

    class Ours
      SLICE = 20_000

      def initialize(folder, synced: false)
        $LOAD_PATH.unshift(GEM)
        require "paceline/pstore"
        @path = File.join(folder, "guide.pstore")
        @store = Paceline::PStore.new(@path)
        @store.ultra_safe = synced
      end

      # Many at once as Records, in the format of Paceline::PStore's table: by transactions a million takes minutes.
      def fill(count)
        @store.transaction { |s| s[PStoreSession.name(0)] = PStoreSession.make(0) }
        names = (1...count).map { |i| [PStoreSession.name(i), i] }.sort
        records = Paceline::Records.at(@path)
        names.each_slice(SLICE) do |slice|
          records.commit(slice.to_h { |name, i| ["rs\0#{name}".b, head(name, i) << PStoreSession.dumped(i)] })
        end
        records.commit({ "n" => [count].pack("Q>") })
      end

      def read(name)
        @store.transaction(true) { |s| s[name] }
      end

      def update(name)
        @store.transaction { |s| s[name]["counter"] += 1 }
      end

      def counters(names)
        @store.transaction(true) { |s| names.map { |name| s[name]["counter"] } }
      end

      private

      def head(name, number)
        named = Marshal.dump(name)
        [number, 0, named.bytesize].pack("Q>CN") << named
      end
    end

    class Rubys
      def initialize(folder, synced: false)
        require "pstore"
        @store = PStore.new(File.join(folder, "guide.pstore"))
        @store.ultra_safe = synced
      end

      def fill(count)
        @store.transaction { |s| count.times { |i| s[PStoreSession.name(i)] = Marshal.load(PStoreSession.dumped(i)) } }
      end

      def read(name)
        @store.transaction(true) { |s| s[name] }
      end

      def update(name)
        @store.transaction { |s| s[name]["counter"] += 1 }
      end

      def counters(names)
        @store.transaction(true) { |s| names.map { |name| s[name]["counter"] } }
      end
    end

    # A PStore for each session, as CGI::Session::PStore had it.
    class Files
      def initialize(folder, synced: false)
        require "pstore"
        @folder = folder
        @synced = synced
      end

      def fill(count)
        count.times { |i| File.binwrite(File.join(@folder, PStoreSession.name(i)), Marshal.dump({ "session" => PStoreSession.make(i) })) }
      end

      def read(name)
        store(name).transaction(true) { |s| s["session"] }
      end

      def update(name)
        store(name).transaction { |s| s["session"]["counter"] += 1 }
      end

      def counters(names) = names.map { |name| read(name)["counter"] }

      private

      def store(name) = PStore.new(File.join(@folder, name)).tap { |store| store.ultra_safe = @synced }
    end

    class SQLite
      def initialize(folder, synchronous:)
        require "sqlite3"
        @db = SQLite3::Database.new(File.join(folder, "sessions.sqlite3"))
        @db.busy_timeout = 10_000
        @db.execute("PRAGMA journal_mode = WAL")
        @db.execute("PRAGMA synchronous = #{synchronous}")
      end

      def fill(count)
        @db.execute("PRAGMA journal_mode = OFF")
        @db.execute("CREATE TABLE sessions (id TEXT PRIMARY KEY, data BLOB)")
        insert = @db.prepare("INSERT INTO sessions VALUES (?, ?)")
        names = (0...count).map { |i| [PStoreSession.name(i), i] }.sort
        @db.transaction { names.each { |name, i| insert.execute(name, SQLite3::Blob.new(PStoreSession.dumped(i))) } }
        insert.close
        @db.execute("PRAGMA journal_mode = WAL")
      end

      def read(name)
        @select ||= @db.prepare("SELECT data FROM sessions WHERE id = ?")
        data = @select.execute(name).next[0]
        @select.reset!
        Marshal.load(data)
      end

      def update(name)
        @write ||= @db.prepare("UPDATE sessions SET data = ? WHERE id = ?")
        @db.transaction(:immediate) do
          found = read(name)
          found["counter"] += 1
          @write.execute(SQLite3::Blob.new(Marshal.dump(found)), name)
          @write.reset!
        end
      end

      def counters(names) = names.map { |name| read(name)["counter"] }
    end

    # What Redis keeps when its server is told by ENV["BENCH_REDIS"], a socket. GET and SET, as session stores on Redis do it: without a lock.
    class Redis
      def initialize(_folder)
        require "redis"
        @redis = ::Redis.new(path: ENV.fetch("BENCH_REDIS"))
      end

      # Sizes have a database each.
      def select(index) = @redis.select(index)

      def fill(count)
        count.times.each_slice(1000) { |slice| @redis.mset(*slice.flat_map { |i| [PStoreSession.name(i), PStoreSession.dumped(i)] }) }
      end

      def read(name) = Marshal.load(@redis.get(name))

      def update(name)
        found = read(name)
        found["counter"] += 1
        @redis.set(name, Marshal.dump(found))
      end

      def counters(names) = names.map { |name| read(name)["counter"] }
    end

    # The session store of Rails' gem activerecord-session_store, on SQLite as Rails sets it up since 7.1: WAL, synchronous=normal, and who finds it
    # locked lets other threads run.
    class ActiveRecordStore
      def initialize(folder)
        raise LoadError, "activerecord-session_store is not there: `bin/setup bench` says how it is brought" unless File.directory?(SESSION_STORE)

        $LOAD_PATH.unshift(SESSION_STORE)
        require "active_record"
        require "action_dispatch"
        require "activerecord/session_store"
        require_relative "sqlite_as_in_rails_7"
        # A connection belongs to a class with a name; a process has several of these stores.
        @model = self.class.const_set("Session#{self.class.constants.size}", Class.new(ActiveRecord::SessionStore::Session))
        @model.table_name = "sessions"
        settings = { adapter: "sqlite3", database: File.join(folder, "production.sqlite3") }
        # Which is asked what it knows of the class above.
        ActiveRecord::Base.establish_connection(settings) if self.class.constants.size == 1
        @model.establish_connection(settings)
      end

      def fill(count)
        database = @model.connection
        database.execute("CREATE TABLE sessions (id INTEGER PRIMARY KEY, session_id VARCHAR NOT NULL, data TEXT, created_at DATETIME, updated_at DATETIME)")
        database.raw_connection.transaction do |raw|
          insert = raw.prepare("INSERT INTO sessions (session_id, data, created_at, updated_at) VALUES (?, ?, '2026-11-22', '2026-11-22')")
          count.times { |i| insert.execute(PStoreSession.name(i), [PStoreSession.dumped(i)].pack("m")) }
          insert.close
        end
        database.execute("CREATE UNIQUE INDEX by_session ON sessions (session_id)")
        database.execute("CREATE INDEX by_time ON sessions (updated_at)")
      end

      def read(name) = found(name).data

      def update(name)
        record = found(name)
        record.data["counter"] += 1
        record.save!
      end

      def counters(names) = names.map { |name| read(name)["counter"] }

      private

      def found(name) = @model.find_by_session_id(name)
    end

    # Tokyo Cabinet's hash database through Debian's ruby-tokyocabinet. A file belongs to one process.
    class Tokyo
      def initialize(folder)
        require "tokyocabinet"
        @db = TokyoCabinet::HDB.new
        @db.setxmsiz(1 << 30)
        @db.open(File.join(folder, "sessions.tch"), TokyoCabinet::HDB::OWRITER | TokyoCabinet::HDB::OCREAT) or raise @db.errmsg
      end

      def fill(count)
        @db.tune(count * 2, -1, -1, 0)
        count.times { |i| @db.put(PStoreSession.name(i), PStoreSession.dumped(i)) }
        @db.sync
      end

      def read(name) = Marshal.load(@db.get(name))

      def update(name)
        found = read(name)
        found["counter"] += 1
        @db.put(name, Marshal.dump(found))
      end

      def counters(names) = names.map { |name| read(name)["counter"] }
    end
  end
end
