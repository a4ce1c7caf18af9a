# frozen_string_literal: true

require_relative "support/shadow_case"
require "session/support/backends"
require "etc"

# Redis, memcached and MongoDB are read, and not written. The servers and their clients are real where they are installed.
class ShadowStoreServersTest < ShadowCase
  HERE = ->(name) { Gem::Specification.find_all_by_name(name).any? }
  # What a route's code gives, or the class of what it raises.
  OUTCOME = "def outcome\n  yield.inspect\nrescue StandardError => e\n  e.class.name\nend\n"

  # `codes`: code of each path. Yields the shadow.
  def with_outcomes(head, codes)
    with_shadow("#{head}#{OUTCOME}#{routes(codes.transform_values { |code| "outcome { #{code} }" })}") { |shadow, *| yield shadow }
  end

  # Each code is refused with this error, and noted as a write; `whats`: what by path.
  def assert_refused(shadow, error, whats)
    whats.each do |path, what|
      result = shadow.get(path)
      assert_equal [error, "store", what], [result["text"], *result["write"]&.values_at("kind", "what")], path
      assert_match(/\Aconfig\.ru:\d+\z/, result["write"]["at"])
    end
  end

  def redis
    skip "there is no redis-server, or no gem redis" if SessionBackends::SERVERS.empty? || !SessionBackends::CLIENT
    require "redis"
    server = SessionBackends.server(SessionBackends::SERVERS.first)
    redis = Redis.new(url: server.url)
    redis.flushall
    yield redis, server.url
  ensure
    redis&.close
  end

  REDIS_READS = {
    "/get" => ["REDIS.get('there')", '"kept"'], "/several" => ["REDIS.pipelined { |p| p.mget('there', 'gone'); p.hgetall('hash'); p.ttl('there') }", [["kept", nil], { "a" => "1" }, -1].inspect],
    "/multi" => ["REDIS.multi { |t| t.get('there') }", '["kept"]'], "/scan" => ["REDIS.scan_each.to_a.sort", '["hash", "list", "there"]'],
    "/config" => ["REDIS.config(:get, 'appendonly')", { "appendonly" => "no" }.inspect], "/low" => ["REDIS.call('get', 'there')", '"kept"']
  }.freeze
  REDIS_WRITES = {
    "/set" => ["REDIS.set('there', 'secret')", "SET"], "/incr" => ["REDIS.incr('n')", "INCR"], "/expire" => ["REDIS.expire('there', 1)", "EXPIRE"], "/del" => ["REDIS.del('there')", "DEL"],
    "/pipelined" => ["REDIS.pipelined { |p| p.get('there'); p.lpush('list', 'secret') }", "LPUSH"], "/in_multi" => ["REDIS.multi { |t| t.get('there'); t.hset('hash', 'b', '2') }", "HSET"],
    "/publish" => ["REDIS.publish('news', 'secret')", "PUBLISH"], "/script" => ["REDIS.eval('return 1')", "EVAL"], "/store" => ["REDIS.sort('list', store: 'other')", "SORT"],
    "/own" => ["REDIS.call('JSON.SET', 'there', '$', '1')", "JSON.SET"], "/config_set" => ["REDIS.config(:set, 'appendonly', 'yes')", "CONFIG"], "/flush" => ["REDIS.flushall", "FLUSHALL"]
  }.freeze

  def test_redis_is_read_and_not_written
    redis do |client, url|
      client.mset("there", "kept")
      client.hset("hash", "a", "1")
      client.rpush("list", %w[2 1])
      contents = -> { client.keys("*").sort.map { |key| [key, client.dump(key), client.ttl(key)] } }
      before = contents.call
      codes = { **REDIS_READS, **REDIS_WRITES }.transform_values(&:first)
      with_outcomes("require 'redis'\nREDIS = Redis.new(url: #{url.inspect})\n", codes) do |shadow|
        2.times { REDIS_READS.each { |path, (_, expected)| assert_equal [expected, nil], shadow.get(path).values_at("text", "write"), path } }
        assert_refused(shadow, "Redis::CommandError", REDIS_WRITES.transform_values { |_, name| "the Redis command #{name}" })
        assert_equal '"kept"', shadow.get("/get")["text"], "the connection is still good"
      end
      assert_equal before, contents.call
    end
  end

  # Redis says of each command whether it writes; a container's flags are those of its parts.
  def test_what_counts_as_a_read_is_what_redis_says
    require "paceline/server/shadow/guards"
    guard = Paceline::Server::Shadow::Guards::Redis
    redis do |client|
      all = client.call("COMMAND").flat_map { |command| [command, *command[9]] }
      flags = all.to_h { |name, _, given| [name.upcase.tr("|", " "), given.map(&:to_s)] }
      admitted = flags.keys.select { |name| guard.reads?(name.split) }
      assert_operator admitted.size, :>, 80
      assert_empty admitted.select { |name| flags[name].include?("write") }
      # Newer servers have more.
      missing = flags.keys.select { |name| flags[name].include?("readonly") && !admitted.include?(name) }
      assert_empty missing if client.info["redis_version"].start_with?("7.0.")
    end
  end

  # The gem redis-client has these methods for everything that it sends, in each of its drivers; hiredis has the third.
  STAND_INS = <<~'RUBY'
    require "socket"
    class RedisClient
      CommandError = Class.new(StandardError)
      class RubyConnection
        def initialize(path)
          @path = path
          @sent = []
          connect
        end

        def write(command) = @sent << command
        def write_multi(commands) = @sent.concat(commands)

        private

        def connect = UNIXSocket.new(@path).close
      end
    end
    module Hiredis
      class Connection
        def write(command) = command
      end
    end
  RUBY

  def test_other_clients_of_redis
    Dir.mktmpdir do |folder|
      path = File.join(folder, "redis")
      UNIXServer.open(path) do |server|
        connection = "RedisClient::RubyConnection.new(#{path.inspect})"
        reads = { "/read" => "#{connection}.write(['GET', 'a'])", "/reads" => "#{connection}.write_multi([['HELLO', '3'], ['CLIENT', 'SETNAME', 'a']])", "/hiredis" => "Hiredis::Connection.new.write([:get, 'a'])" }
        writes = { "/write" => "#{connection}.write(['set', 'a', 'b'])", "/writes" => "#{connection}.write_multi([['GET', 'a'], ['DEL', 'a']])", "/hiredis_write" => "Hiredis::Connection.new.write([:set, 'a', 'b'])" }
        with_outcomes(STAND_INS, { **reads, **writes }) do |shadow|
          assert_equal ['[["GET", "a"]]', '[["HELLO", "3"], ["CLIENT", "SETNAME", "a"]]', '[:get, "a"]'], (reads.keys.map { |one| shadow.get(one).then { |result| result["text"] unless result["write"] } })
          assert server.accept, "the client may connect"
          assert_refused(shadow, "RedisClient::CommandError", "/write" => "the Redis command SET", "/writes" => "the Redis command DEL")
          assert_refused(shadow, "Errno::EROFS", "/hiredis_write" => "the Redis command SET")
        end
      end
    end
  end

  # Yields the path of a server's socket.
  def memcached
    skip "there is no memcached, or no gem dalli" unless HERE["dalli"] && ENV["PATH"].split(":").any? { |folder| File.executable?(File.join(folder, "memcached")) }
    Dir.mktmpdir do |folder|
      path = File.join(folder, "socket")
      said, tell = IO.pipe
      pid = Process.spawn("memcached", "-vv", "-s", path, "-u", Etc.getpwuid.name, in: File::NULL, out: tell, err: tell)
      tell.close
      nil until (said.gets || flunk("memcached has ended")).include?("server listening")
      drain = Thread.new { said.each_line {} }
      yield path
    ensure
      Process.kill(:KILL, pid)
      Process.wait(pid)
      drain&.join
    end
  end

  def test_memcached_is_read_and_not_written
    memcached do |path|
      require "dalli"
      client = Dalli::Client.new(path)
      client.set("there", "kept")
      reads = { "/get" => ["CLIENT.get('there')", '"kept"'], "/several" => ["CLIENT.get_multi('there', 'gone')", { "there" => "kept" }.inspect], "/cas" => ["CLIENT.get_cas('there').first", '"kept"'] }
      writes = { "/set" => ["CLIENT.set('there', 'secret')", "set"], "/add" => ["CLIENT.add('new', 'secret')", "add"], "/delete" => ["CLIENT.delete('there')", "delete"], "/touch" => ["CLIENT.touch('there', 1)", "touch"],
                 "/incr" => ["CLIENT.incr('n', 1, nil, 1)", "incr"], "/flush" => ["CLIENT.flush_all", "flush"], "/multi" => ["CLIENT.multi { CLIENT.set('there', 'secret') }", "setq"] }
      with_outcomes("require 'dalli'\nCLIENT = Dalli::Client.new(#{path.inspect})\n", { **reads, **writes }.transform_values(&:first)) do |shadow|
        2.times { reads.each { |one, (_, expected)| assert_equal [expected, nil], shadow.get(one).values_at("text", "write"), one } }
        result = shadow.get("/multi")
        assert_equal ["Dalli::DalliError", "store"], [result["text"], result["write"]["kind"]]
        assert_refused(shadow, "Dalli::DalliError", writes.except("/multi").transform_values { |_, name| "the memcached operation #{name}" })
      end
      assert_equal "kept", client.get("there")
      assert_nil client.get("new")
    ensure
      client&.close
    end
  end

  # The gem's messages are real; the connection is none: what is let through meets that.
  MONGO = <<~'RUBY'
    require "mongo"
    def dispatch(command)
      Mongo::Server::Connection.allocate.dispatch([Mongo::Protocol::Query.new("shop", "$cmd", command, limit: -1)])
    end
  RUBY

  def test_mongodb_is_read_and_not_written
    skip "no gem mongo" unless HERE["mongo"] && HERE["bson"]
    reads = { "/find" => "dispatch(find: 'beers', filter: {})", "/count" => "dispatch(count: 'beers')", "/aggregate" => "dispatch(aggregate: 'beers', pipeline: [{ '$match' => {} }])" }
    writes = { "/insert" => "dispatch(insert: 'beers', documents: [{ name: 'secret' }])", "/update" => "dispatch(update: 'beers', updates: [])", "/drop" => "dispatch(drop: 'beers')",
               "/out" => "dispatch(aggregate: 'beers', pipeline: [{ '$match' => {} }, { '$out' => 'others' }])" }
    with_outcomes(MONGO, { **reads, **writes }) do |shadow|
      reads.each_key { |path| assert_equal ["NoMethodError", nil], shadow.get(path).values_at("text", "write"), path }
      assert_refused(shadow, "Mongo::Error", "/insert" => "the MongoDB command insert", "/update" => "the MongoDB command update", "/drop" => "the MongoDB command drop", "/out" => "the MongoDB command aggregate")
    end
  end
end
