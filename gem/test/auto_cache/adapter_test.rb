# frozen_string_literal: true

require "helper"
require "paceline/auto_cache"

# Writes through an adapter of Active Record: what others see when they are announced, and when they are said to be done. Each test in a
# process of its own.
class AutoCacheAdapterTest < Paceline::Test
  HERE = %w[activerecord sqlite3].all? { |name| Gem::Specification.find_all_by_name(name).any? }

  # A front that notes what it is told, and which titles another connection sees then.
  class Witness
    attr_reader :lines

    def initialize(file)
      @lines = []
      @other = SQLite3::Database.new(file)
    end

    def intend(entries)
      lines << [:intend, entries.map { |sql,| sql[/\A\w+/] }, titles]
      lines.size
    end

    def done(_, how) = lines << [:done, how, titles]

    def titles = @other.execute("SELECT title FROM posts ORDER BY id").flatten
  end

  def setup
    skip "Active Record is not here" unless HERE
  end

  # One row, "old", and a front that watches.
  def posts(**settings)
    in_tmpdir do |dir|
      require "active_record"
      require "sqlite3"
      Paceline::AutoCache.announce(root: dir)
      Paceline::AutoCache.journal = nil
      file = File.join(dir, "test.sqlite3")
      ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: file, **settings)
      database = SQLite3::Database.new(file)
      database.execute("PRAGMA journal_mode = WAL")
      database.execute("CREATE TABLE posts (id INTEGER PRIMARY KEY, title TEXT)")
      database.execute("INSERT INTO posts VALUES (1, 'old')")
      Object.const_set(:Post, Class.new(ActiveRecord::Base))
      Post.count
      witness = Paceline::AutoCache.journal = Witness.new(file)
      yield Post, witness.lines
    end
  end

  UPDATED = [[:intend, ["UPDATE"], ["old"]], [:done, "commit", ["new"]]].freeze

  def test_a_write_is_done_when_others_see_it
    return if apart

    posts do |model, lines|
      model.transaction { model.where(id: 1).update_all(title: "new") }
      assert_equal UPDATED, lines
    end
  end

  def test_a_transaction_that_reads_first
    return if apart

    posts do |model, lines|
      model.find(1).update!(title: "new")
      assert_equal UPDATED, lines
      lines.clear
      model.transaction do
        model.find(1)
        model.where(id: 1).update_all(title: "newer")
        raise ActiveRecord::Rollback
      end
      assert_empty lines
      model.where(id: 1).update_all(title: "last")
      assert_equal [[:intend, ["UPDATE"], ["new"]], [:done, "commit", ["last"]]], lines
    end
  end

  def test_a_savepoint_that_is_rolled_back
    return if apart

    posts do |model, lines|
      model.transaction do
        model.where(id: 1).update_all(title: "new")
        model.transaction(requires_new: true) do
          model.create!(title: "never")
          raise ActiveRecord::Rollback
        end
      end
      assert_equal UPDATED, lines
    end
  end

  # They are marked for the driver; Active Record's own ones are not, and are recorded once, by its adapter.
  def test_statements_that_the_application_prepares
    return if apart

    posts do |model, lines|
      driver = model.connection.raw_connection
      driver.prepare("UPDATE posts SET title = ?") { |statement| statement.execute("new") }
      assert_equal UPDATED, lines
      prepared = driver.prepare("SELECT title FROM posts WHERE id = ?")
      recording = Paceline::AutoCache::Recording.new(Paceline::AutoCache::Readers.new(__dir__))
      Paceline::AutoCache.with(recording) { assert_equal %w[new new], [prepared.execute(1).next["title"], model.find(1).title] }
      prepared.close
      read = recording.enum_for(:each).map { |_, sql, values,| [sql[/WHERE.*/], values] }
      assert_equal ["WHERE id = ?", []], read.first
      assert_equal [1, 1], read.last.last
      assert_equal 2, read.size
    end
  end

  def test_a_replica_may_be_behind
    return if apart

    posts(replica: true) do |model,|
      recording = Paceline::AutoCache::Recording.new(Paceline::AutoCache::Readers.new(__dir__))
      Paceline::AutoCache.with(recording) { model.count }
      assert_equal "reads a replica, which may be behind", recording.untracked_because
    end
  end
end
