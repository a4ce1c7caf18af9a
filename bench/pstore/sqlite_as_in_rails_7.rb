# frozen_string_literal: true

# Debian's Rails 6.1 leaves SQLite as it comes, and waits for a lock without letting another thread run that may have it. Later ones do this.
require "active_record/connection_adapters/sqlite3_adapter"

module Bench
  module SQLiteAsInRails7
    # Seconds between two looks whether it is still locked.
    PAUSE = 0.001

    private

    def configure_connection
      super
      @connection.busy_handler { sleep PAUSE }
      @connection.execute("PRAGMA journal_mode = WAL")
      @connection.execute("PRAGMA synchronous = NORMAL")
    end
  end
end

ActiveRecord::ConnectionAdapters::SQLite3Adapter.prepend(Bench::SQLiteAsInRails7)
