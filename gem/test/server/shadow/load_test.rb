# frozen_string_literal: true

require_relative "support/shadow_case"
require_relative "support/postgresql"

# A shadow that answers on several channels at once: each request is guarded by itself.
class ShadowLoadTest < ShadowCase
  # `MEET.(2)`: returns when two threads are there. Paths are the names of methods.
  MEET = <<~'RUBY'
    LOCK = Mutex.new
    THERE = ConditionVariable.new
    $there = 0
    MEET = lambda do |count|
      LOCK.synchronize do
        $there += 1
        THERE.broadcast
        THERE.wait(LOCK, 10) while $there < count
        raise "only #{$there} of #{count} have come" if $there < count
      end
    end
  RUBY

  # Has `shadow` answer on so many channels, and yields them: Shadows without a first line.
  def channels(shadow, dir, threads, *paths, deliver: "gathered")
    path = File.join(dir, "channels")
    requests = paths.map { |one| shadow.replay(one)[:request] }
    UNIXServer.open(path) do |server|
      assert_equal({ "ok" => true }, shadow.ask(do: "load", socket: path, threads: threads, requests: requests, deliver: deliver))
      sockets = Array.new(threads) { Timeout.timeout(FakeFront::LIMIT) { server.accept } }
      yield sockets
    ensure
      sockets&.each(&:close)
    end
  end

  # Status and error of each answer.
  def ends(answers) = answers.map { |answer| answer.values_at("status", "error") }

  # Sends each channel one request, all at once. The answers.
  def ask_all(sockets, requests)
    sockets.zip(requests) { |socket, request| socket.write(JSON.generate(id: request, request: request) << "\n") }
    sockets.map { |socket| JSON.parse(Timeout.timeout(FakeFront::LIMIT) { socket.gets } || "null") }
  end

  def test_requests_are_answered_side_by_side
    app = "#{MEET}#{routes("/a" => "MEET.(3)", "/b" => "MEET.(3)")}"
    with_shadow(app) do |shadow, dir|
      channels(shadow, dir, 3, "/a", "/b") do |sockets|
        expected = [0, 1, 0].map { |id| { "id" => id, "status" => 200, "write" => nil, "error" => nil } }
        assert_equal expected, ask_all(sockets, [0, 1, 0])
      end
    end
  end

  def test_in_pieces
    with_shadow("run ->(_) { [200, {}, %w[a b c]] }") do |shadow, dir|
      channels(shadow, dir, 2, "/", deliver: "pieces") do |sockets|
        assert_equal [200, 200], (ask_all(sockets, [0, 0]).map { |answer| answer["status"] })
      end
    end
  end

  def test_a_write_is_noted_of_its_request_alone
    write = "MEET.(3); begin; File.write(File.join(__dir__, 'new'), 'x'); rescue SystemCallError; end; MEET.(6)"
    in_a_thread = "MEET.(3); Thread.new { begin; File.write(File.join(__dir__, 'other'), 'x'); rescue SystemCallError; end }.join; MEET.(6)"
    app = "#{MEET}#{routes("/write" => write, "/thread" => in_a_thread, "/read" => "MEET.(3); MEET.(6)")}"
    with_shadow(app) do |shadow, dir|
      channels(shadow, dir, 3, "/write", "/thread", "/read") do |sockets|
        answers = ask_all(sockets, [0, 1, 2])
        assert_equal ["new", "other", nil], (answers.map { |answer| answer["write"] && answer["write"]["what"] })
        assert_empty Dir[File.join(dir, "{new,other}")]
      end
    end
  end

  def test_a_write_of_a_thread_that_is_nobodys_is_noted_of_all
    app = <<~RUBY
      #{MEET}
      ORDERS = Queue.new
      #{routes("/start" => "Thread.new { ORDERS.pop; begin; File.write(File.join(__dir__, 'new'), 'x'); rescue SystemCallError; end; MEET.(5) }", "/wait" => "MEET.(2); ORDERS << 1; MEET.(5)")}
    RUBY
    with_shadow(app) do |shadow, dir|
      assert_nil shadow.get("/start")["write"]
      channels(shadow, dir, 2, "/wait") do |sockets|
        assert_equal [200, 200], (answers = ask_all(sockets, [0, 0])).map { |answer| answer["status"] }
        assert_equal [true], answers.map { |answer| !answer["write"].nil? }.uniq
      end
    end
  end

  def test_what_is_raised_is_told_by_its_class
    app = routes("/raise" => "raise KeyError, 'ann@shop.test'", "/" => "1")
    with_shadow(app) do |shadow, dir|
      channels(shadow, dir, 2, "/raise", "/") do |sockets|
        assert_equal [[500, "KeyError"], [200, nil]], ends(ask_all(sockets, [0, 1]))
      end
    end
  end

  def test_time_and_random_numbers_are_the_process_s_own
    app = routes("/" => "$seen = ($seen || []) << [rand, Time.now.to_f]; 1", "/check" => "$seen.map(&:first).uniq.size == 3 && $seen.all? { |_, time| time > #{Time.now.to_f - 1} } or raise $seen.inspect")
    with_shadow(app) do |shadow, dir|
      channels(shadow, dir, 1, "/", "/check") do |sockets|
        3.times { ask_all(sockets, [0]) }
        assert_equal 200, ask_all(sockets, [1]).first["status"]
      end
    end
  end

  def test_sessions_and_counters_are_a_request_s_own
    app = <<~RUBY
      #{MEET}
      require "rack"
      require "active_support"
      require "active_support/cache"
      require "active_support/notifications"
      require "active_support/core_ext"
      #{"require 'rack/session'" if Gem::Specification.find_all_by_name("rack-session").any?}
      CACHE = ActiveSupport::Cache.lookup_store(:memory_store)
      use Rack::Session::Pool
      run(lambda do |env|
        MEET.(2)
        mine = env["PATH_INFO"]
        env["rack.session"]["name"] = mine
        count = CACHE.increment("visits")
        MEET.(4)
        raise "not mine" unless env["rack.session"]["name"] == mine && CACHE.increment("visits") == 2 && count == 1
        [200, {}, []]
      end)
    RUBY
    with_shadow(app) do |shadow, dir|
      channels(shadow, dir, 2, "/a", "/b") do |sockets|
        assert_equal [[200, nil]] * 2, ends(ask_all(sockets, [0, 1]))
      end
    end
  end

  RECORD = <<~'RUBY'
    require "active_record"
    require "sqlite3"
    ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: File.join(__dir__, "shop.sqlite3"), pool: 4)
    ActiveRecord::Schema.verbose = false
    ActiveRecord::Schema.define { create_table("visits") { |t| t.string :name } }
    class Visit < ActiveRecord::Base; end
    Visit.create!(name: "kept")
  RUBY

  def test_activerecord_refuses_in_each_thread
    write = "MEET.(4); begin; Visit.create!(name: 'secret'); rescue ActiveRecord::ReadOnlyError; end; MEET.(8); Visit.count == 1 or raise"
    app = "#{MEET}#{RECORD}#{routes("/write" => write, "/read" => "MEET.(4); Visit.count; MEET.(8)")}"
    with_shadow(app) do |shadow, dir|
      channels(shadow, dir, 4, "/write", "/read") do |sockets|
        answers = ask_all(sockets, [0, 1, 0, 1])
        assert_equal [[200, nil]] * 4, ends(answers)
        assert_equal [true, false, true, false], (answers.map { |answer| !answer["write"].nil? })
      end
    end
  end

  # What one request has done is rolled back with it, and the other's transaction goes on.
  def test_postgresql_rolls_back_each_thread_s_transaction
    PostgreSQL.with do |server|
      head = <<~RUBY
        #{MEET}
        require "active_record"
        ActiveRecord::Base.establish_connection(adapter: "postgresql", host: #{server.host.inspect}, username: "postgres", database: "postgres", pool: 2)
        DB = ActiveRecord::Base
      RUBY
      short = "DB.connection.select_value('SELECT 1'); MEET.(2)"
      long = "DB.connection.select_value('SELECT set_config($$shop.mine$$, $$1$$, true)'); MEET.(2); sleep 0.2; DB.connection.select_value('SELECT current_setting($$shop.mine$$)') == '1' or raise 'rolled back'"
      with_shadow("#{head}#{routes("/short" => short, "/long" => long, "/after" => "DB.connection.select_value('SELECT current_setting($$shop.mine$$, true)').to_s.empty? or raise 'goes on'")}") do |shadow, dir|
        channels(shadow, dir, 2, "/short", "/long", "/after") do |sockets|
          assert_equal [[200, nil]] * 2, ends(ask_all(sockets, [0, 1]))
          2.times { assert_equal [[200, nil]] * 2, ends(ask_all(sockets, [2, 2])) }
        end
      end
    end
  end

  # Threads give connections to each other, and the guard's transaction with them.
  def test_a_connection_that_is_given_on_keeps_its_transaction
    PostgreSQL.with do |server|
      app = <<~RUBY
        #{MEET}
        require "active_record"
        ActiveRecord::Base.establish_connection(adapter: "postgresql", host: #{server.host.inspect}, username: "postgres", database: "postgres", pool: 1)
        DB = ActiveRecord::Base
        #{routes("/" => "DB.connection.select_value('SELECT 1'); DB.connection_pool.release_connection; MEET.(2); DB.connection.open_transactions == 1 or raise 'no transaction'; DB.connection_pool.release_connection; MEET.(4)")}
      RUBY
      with_shadow(app) do |shadow, dir|
        channels(shadow, dir, 2, "/") do |sockets|
          assert_equal [[200, nil]] * 2, ends(ask_all(sockets, [0, 0]))
        end
      end
    end
  end

  # Each request is given its own recordings, however many ask at once; nobody is really called.
  def test_outbound_calls_are_answered_by_the_recordings_of_each_request
    count = 0
    origin = TCPServer.new("127.0.0.1", 0)
    thread = Thread.new do
      while (socket = origin.accept)
        nil while socket.gets.to_s.chomp != ""
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n#{count += 1}")
        socket.close
      end
    end
    call = "Net::HTTP.get('127.0.0.1', '/price', #{origin.addr[1]})"
    with_shadow("require 'net/http'\n#{routes("/a" => "#{call} == '1' or raise", "/b" => "#{call} == '2' or raise")}") do |shadow, dir|
      %w[/a /b].each { |path| assert_equal 200, shadow.get(path, outbound: "record")["status"] }
      channels(shadow, dir, 4, "/a", "/b") do |sockets|
        3.times { assert_equal [[200, nil, nil]] * 4, (ask_all(sockets, [0, 1, 0, 1]).map { |answer| answer.values_at("status", "error", "write") }) }
      end
    end
    assert_equal 2, count
  ensure
    thread&.kill
    origin&.close
  end

  def test_ends_with_its_driver
    with_shadow("run ->(_) { [200, {}, []] }") do |shadow, dir|
      channels(shadow, dir, 2, "/") do |sockets|
        assert_match(/already/, shadow.ask(do: "load", socket: "", threads: 1, requests: [])["error"])
        shadow.close
        sockets.each { |socket| assert_nil Timeout.timeout(FakeFront::LIMIT) { socket.gets } }
      end
    end
  end
end
