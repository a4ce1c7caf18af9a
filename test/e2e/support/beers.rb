# The beginning of applications whose pages are made of beers in SQLite: the table, and writes that wait for the test.
BEERS = <<~'RUBY'.freeze
  require "active_record"
  require "rack"
  ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: File.join(__dir__, "shop.sqlite3"), pool: 5, timeout: 10_000)
  ActiveRecord::Schema.verbose = false
  class Beer < ActiveRecord::Base; end
  unless Beer.table_exists?
    ActiveRecord::Schema.define do
      create_table(:beers) { |t| t.string :name, default: "x" }
    end
    1.upto(3) { |id| Beer.create!(id: id, name: "Pils") }
  end

  # By descriptors alone, which nobody sees.
  PASS = ->(word) {
    %w[arrived w barrier r].each_slice(2) do |name, mode|
      pipe = IO.new(IO.sysopen(File.join(__dir__, name), mode), mode)
      mode == "w" ? pipe.write(word) : pipe.read
      pipe.close
    end
  }

  # Waits for the test between the announcement of a write and its COMMIT.
  HELD = Class.new do
    def start(_, _, payload) = Thread.current[:held] && payload[:sql].match?(/commit/i) && PASS.call(Process.pid.to_s)
    def finish(*) = nil
  end
  ActiveSupport::Notifications.subscribe("sql.active_record", HELD.new)

RUBY
