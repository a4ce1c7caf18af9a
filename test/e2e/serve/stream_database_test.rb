# What a worker says of streams that hold connections to the database, for which the pool is too small. It is only for applications that have such streams.
require_relative "../support/rack_routes"

class StreamDatabaseTest < Minitest::Test
  include Scenario
  include RackRoutes

  NOTICE = /is a stream and holds a connection to the database/

  rack_setup <<~'RUBY'
    require "active_record"
    ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: ":memory:", pool: 5)
    EVENTS = { "content-type" => "text/event-stream" }.freeze
    # As an executor does at the end of an action.
    def query(then_release: false)
      ActiveRecord::Base.connection.execute("select 1")
      ActiveRecord::Base.connection_handler.clear_active_connections! if then_release
    end
  RUBY
  rack("/page") { |_env| query; [200, { "content-type" => "text/plain" }, ["page"]] }
  rack("/without") { |_env| query(then_release: true); [200, EVENTS.dup, ["data: 1\n\n"].each] }
  rack("/before") { |_env| query; [200, EVENTS.dup, ["data: 1\n\n"].each] }
  rack("/within") { |_env| [200, EVENTS.dup, Enumerator.new { |out| query; out << "data: 1\n\n" }] }
  # As ActionController::Live runs an action: in a thread that has the locals of the request's.
  rack("/live") do |_env|
    asked, answered = Thread.current, Queue.new
    Thread.new do
      asked.keys.each { |key| Thread.current[key] = asked[key] }
      query
      answered << 1
      sleep
    end
    answered.pop
    [200, EVENTS.dup, ["data: 1\n\n"].each]
  end

  def test_a_stream_that_holds_no_connection_says_nothing
    start("--stream-threads", "10")
    %w[/page /without /without].each { |path| assert_equal "200", @server.get(path).code }
    refute_match NOTICE, @server.output
  end

  %w[before within live].each do |which|
    define_method("test_a_stream_that_queries_#{which}_is_named_once_with_what_to_set") do
      start("--stream-threads", "10")
      2.times { assert_equal "data: 1\n\n", @server.get("/#{which}").body }
      @server.wait_for(%r{GET /#{which} is a stream and .*1 threads and up to 10 streams, and the pool 5 connections: .* to 11, or stream_threads to 4 })
      assert_equal 1, @server.output.scan(NOTICE).size
    end
  end

  def test_a_pool_that_is_large_enough_is_not_spoken_of
    start("--stream-threads", "4")
    @server.get("/before")
    refute_match NOTICE, @server.output
  end
end
