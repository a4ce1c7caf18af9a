# frozen_string_literal: true

# Goes into the copy of an application that `bin/bench auto-hits` runs: says in Server-Timing which tables a request has read and written.
module BenchTables
  READ = /\b(?:FROM|JOIN)\s+"?(\w+)"?/i
  WRITTEN = /\A\s*(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+"?(\w+)"?/i

  class Middleware
    def initialize(app)
      @app = app
    end

    def call(env)
      Thread.current[:bench_tables] = { read: [], written: [] }
      status, headers, body = @app.call(env)
      tables = Thread.current[:bench_tables].map { |kind, names| "#{kind};desc=\"#{names.uniq.sort.join(" ")}\"" }
      headers["Server-Timing"] = tables.join(", ")
      [status, headers, body]
    end
  end

  def self.note(payload)
    tables = Thread.current[:bench_tables]
    add(tables, payload[:sql]) unless tables.nil? || %w[SCHEMA TRANSACTION].include?(payload[:name])
  end

  def self.add(tables, sql)
    written = sql[WRITTEN, 1]
    written ? tables[:written] << written : tables[:read].concat(sql.scan(READ).flatten)
  end
end

if defined?(Rails)
  ActiveSupport::Notifications.subscribe("sql.active_record") { |*, payload| BenchTables.note(payload) }
  Rails.application.config.middleware.insert_before 0, BenchTables::Middleware
end
