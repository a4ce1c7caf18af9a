# frozen_string_literal: true

# What `bin/bench pstore` compares, by name.
require_relative "stores"

module Bench
  module PStoreWays
    # FOLDER: where its records are; ways with the same one share them. MOST: records that it is measured with. ALONE: by one process only.
    # SERVER: arguments of the redis-server it needs. DURABLE: whether what was written outlives a power failure.
    Way = Struct.new(:name, :title, :folder, :most, :alone, :server, :durable, :make, keyword_init: true)
    MARSHAL = "marshal"
    # Above so many records a transaction of Ruby's PStore takes half a minute, and others as long to be filled as all the rest.
    FEW = 10_000

    ALL = [
      Way.new(name: MARSHAL, title: "Marshal alone: load; load and dump", make: ->(folder) { PStoreStores::Marshalling.new(folder) }),
      Way.new(name: "paceline", title: "Paceline::PStore", folder: "paceline", make: ->(folder) { PStoreStores::Ours.new(folder) }),
      Way.new(name: "pstore", title: "Ruby's PStore", folder: "pstore", most: FEW, make: ->(folder) { PStoreStores::Rubys.new(folder) }),
      Way.new(name: "files", title: "a PStore file for each record", folder: "files", most: FEW, make: ->(folder) { PStoreStores::Files.new(folder) }),
      Way.new(name: "sqlite-off", title: "SQLite, WAL, synchronous=off", folder: "sqlite", make: ->(folder) { PStoreStores::SQLite.new(folder, synchronous: "off") }),
      Way.new(name: "sqlite", title: "SQLite, WAL, synchronous=normal", folder: "sqlite", make: ->(folder) { PStoreStores::SQLite.new(folder, synchronous: "normal") }),
      Way.new(name: "activerecord", title: "ActiveRecord session store on SQLite, WAL", folder: "activerecord", most: FEW,
              make: ->(folder) { PStoreStores::ActiveRecordStore.new(folder) }),
      Way.new(name: "redis", title: "Redis, in memory only", folder: "redis", server: ["--save", "", "--appendonly", "no"],
              make: ->(folder) { PStoreStores::Redis.new(folder) }),
      Way.new(name: "tokyo", title: "Tokyo Cabinet, hash database", folder: "tokyo", alone: true, make: ->(folder) { PStoreStores::Tokyo.new(folder) }),
      Way.new(name: "paceline-synced", title: "Paceline::PStore, ultra_safe", folder: "paceline", durable: true,
              make: ->(folder) { PStoreStores::Ours.new(folder, synced: true) }),
      Way.new(name: "pstore-synced", title: "Ruby's PStore, ultra_safe", folder: "pstore-synced", most: FEW, durable: true,
              make: ->(folder) { PStoreStores::Rubys.new(folder, synced: true) }),
      Way.new(name: "sqlite-full", title: "SQLite, WAL, synchronous=full", folder: "sqlite", durable: true,
              make: ->(folder) { PStoreStores::SQLite.new(folder, synchronous: "full") }),
      Way.new(name: "redis-synced", title: "Redis, appendfsync always", folder: "redis-synced", most: FEW, durable: true,
              server: ["--save", "", "--appendonly", "yes", "--appendfsync", "always"], make: ->(folder) { PStoreStores::Redis.new(folder) })
    ].freeze

    module_function

    def named(names)
      names.map { |name| ALL.find { |way| way.name == name } or raise ArgumentError, "no way #{name}; there are #{ALL.map(&:name).join(", ")}" }
    end
  end
end
