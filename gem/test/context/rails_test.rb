# frozen_string_literal: true

require "helper"
require "json"

# The context within Rails: actions, streaming ones, jobs, Action Cable, log tags, SQL comments. Each test in a process of its own.
class ContextRailsTest < Paceline::Test
  HERE = %w[rails sqlite3 rack-test].all? { |name| Gem::Specification.find_all_by_name(name).any? }

  def setup
    skip "Rails is not here" unless HERE
  end

  # Loads the application with these settings, in a folder of its own.
  def rails(**settings)
    Dir.mktmpdir do |folder|
      ENV.update("FOLDER" => folder, "SETTINGS" => JSON.generate(settings))
      require "context/support/rails_app"
      yield folder
      refute_predicate Paceline.current, :active?, "a context is left in the thread"
    end
  end

  def test_actions_streams_and_failures
    return if apart

    rails do
      anonymous, ann, bob = Shopper.new(nil), Shopper.new("ann"), Shopper.new("bob")
      assert_equal ["bob", "login-bob", nil], SEEN["after login"]
      assert_equal '["ann", "ab12", "north"]', ann.ask("/show", tenant: "north").body
      assert_equal '["bob", "cd34", nil]', bob.ask("/show", id: "cd34").body
      assert_equal '[nil, "ef56", nil]', anonymous.ask("/show", id: "ef56").body

      assert_nil Current.user

      response = ann.ask("/live", id: "live-1")
      assert_equal ["ann", ["ann", "live-1", nil]], [response.body, SEEN["live"]]
      assert_equal 500, ann.ask("/fails").status
      refute_predicate Paceline.current, :active?
      assert_equal "Paceline::Context", Rails.application.middleware.first.name
    end
  end

  def test_jobs_run_in_the_context_they_were_enqueued_in
    return if apart

    ENV["RETRY"] = "1"
    rails do |folder|
      extend ActiveJob::TestHelper
      ann = Shopper.new("ann")
      ann.ask("/enqueue", tenant: "north")
      data = JSON.parse(JSON.generate(enqueued_jobs.first.to_h.except(:job, "job").slice("paceline")))["paceline"]
      assert_equal [%w[ab12 1], "gid://context-app/User/1"], [data.values_at("request_id", "label"), data["user"][0]["_aj_globalid"]]

      # Run where another request is in progress, as by an adapter that runs jobs at once.
      Paceline.current.run(user: USERS["bob"], request_id: "other") do
        perform_enqueued_jobs
        assert_equal ["ann", "ab12", "north"], SEEN["job"]
        LookJob.perform_now("now")
        assert_equal ["bob", "other", nil], SEEN["now"]
      end
      LookJob.perform_later("nobody's")
      Paceline.current.run(user: USERS["bob"]) { perform_enqueued_jobs }
      assert_equal [nil, nil, nil], SEEN["nobody's"]

      # A retry keeps it.
      Paceline.current.run(user: USERS["ann"], request_id: "first") { LookJob.perform_later("again", fail: true) }
      perform_enqueued_jobs
      SEEN.delete("again")
      perform_enqueued_jobs
      assert_equal ["ann", "first", nil], SEEN["again"]

      # What a queue can't store is left out, with a line in the log; a user who is gone is nobody, whose label remains.
      Paceline.current.run(user: USERS["bob"], tenant: "south", lock: Mutex.new) { LookJob.perform_later("left") }
      USERS["bob"].destroy!
      label = nil
      LookJob.before_perform { label = Paceline.current.user_label }
      perform_enqueued_jobs
      assert_equal [[nil, nil, "south"], "2"], [SEEN["left"], label]
      assert_match(/Paceline\.current\[:lock\] is not carried with jobs: Active Job can't serialize Thread::Mutex/, File.read(File.join(folder, "log/test.log")))
    end
  end

  # A connection as Action Cable's worker sees it.
  Connection = Struct.new(:env, :words) do
    def say(word) = words << [word, Paceline.current.user&.name, Paceline.current.request_id]
    def logger = ActionCable::Connection::TaggedLoggerProxy.new(Rails.logger, tags: [])
  end

  class IdentifiedConnection < Connection
    attr_accessor :current_user
  end

  def test_connections_of_action_cable
    return if apart

    rails do
      worker = ActionCable.server.worker_pool
      ask = lambda do |name|
        user = USERS[name]
        { "rack.session" => { user_id: user&.id }, "action_dispatch.request_id" => "cable-#{name}", "rack.input" => StringIO.new }
      end
      words = Thread::Queue.new
      connections = %w[ann bob].map { |name| Connection.new(ask.call(name), words) }
      identified = IdentifiedConnection.new(ask.call("ann"), words)
      20.times { |number| worker.async_invoke(connections[number % 2], :say, number) }
      heard = Array.new(20) { words.pop }
      assert_equal [%w[ann cable-ann]], heard.select { |number,| number.even? }.map { |_, *who| who }.uniq
      assert_equal [%w[bob cable-bob]], heard.select { |number,| number.odd? }.map { |_, *who| who }.uniq

      identified.current_user = USERS["bob"]
      worker.async_invoke(identified, :say, "hello")
      assert_equal %w[hello bob cable-ann], words.pop
      # The pool's threads have nothing left.
      found = Thread::Queue.new
      5.times { worker.executor.post { found << Paceline.current.active? } }
      assert_equal [false] * 5, Array.new(5) { found.pop }
    end
  end

  def test_logs_have_the_user_only_where_that_is_asked_for
    return if apart

    rails(log_tags: %w[user request_id]) do |folder|
      assert_equal 200, Shopper.new("ann").ask("/show", id: "tagged-1").status
      Rails.logger.info("outside")
      lines = File.readlines(File.join(folder, "log/test.log"))
      assert_includes lines.grep(/tagged-1/).grep(/Completed 200/).first, "[user:1] [request_id:tagged-1] "
      assert_equal "outside\n", lines.last
    end
  end

  def test_nothing_is_said_unasked
    return if apart

    rails do |folder|
      statements = []
      ActiveSupport::Notifications.subscribe("sql.active_record") { |*, payload| statements << payload[:sql] }
      Shopper.new("ann").ask("/show", id: "plain-1")
      assert_operator statements.size, :>, 1
      assert_empty statements.grep(%r{/\*})
      assert_empty File.readlines(File.join(folder, "log/test.log")).grep(/user:|\[request_id/)
    end
  end

  def test_statements_say_who_asked
    return if apart

    rails(sql_comments: true) do
      account = Account.create!(balance: 3)
      statements = []
      ActiveSupport::Notifications.subscribe("sql.active_record") { |*, payload| statements << payload[:sql] }
      ann = Shopper.new("ann")
      ann.ask("/pay", id: "pay-1", account: account.id, balance: "5")
      assert_equal 5, account.reload.balance

      update = statements.grep(/UPDATE/).first
      assert update.end_with?(" /*request_id='pay-1',user='1'*/"), update
      assert_equal 1, statements.grep(/UPDATE/).size
      assert_match(%r{ /\*request_id='pay-1'(,user='1')?\*/\z}, statements.grep(/SELECT.*accounts/).first)
      assert_equal false, ActiveRecord::Base.connection.prepared_statements

      # What comes from outside can't leave the comment.
      statements.clear
      Paceline.current.run(user: "x*/; DROP TABLE accounts; --'\n", request_id: "a'*/") { Account.where(id: 0).to_a; Account.connection.execute("SELECT 1;") }
      assert_equal 1, Account.count
      assert_match(%r{ /\*request_id='a%27%2A%2F',user='x%2A%2F%3B%20DROP%20TABLE%20accounts%3B%20--%27%0A'\*/\z}, statements.first)
      statements.clear
      Account.where(id: 0).to_a
      assert_empty statements.grep(%r{/\*})
    end
  end

  def test_an_application_may_do_without
    return if apart

    rails(context: false) { refute_includes Rails.application.middleware.map(&:name), "Paceline::Context" }
  end
end
