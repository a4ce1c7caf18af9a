# frozen_string_literal: true

require "helper"
require "paceline/auto_cache"

# What is recorded of reads of Rails.cache and of Rack's cookies, without Rails around them. In a process of its own.
class AutoCacheStoreTest < Paceline::Test
  HERE = %w[activesupport rack].all? { |name| Gem::Specification.find_all_by_name(name).any? }

  def setup
    skip "Active Support is not here" unless HERE
  end

  # Why the block's reads can't be tracked.
  def untracked(&block)
    recording = Paceline::AutoCache::Recording.new(Paceline::AutoCache.readers)
    Paceline::AutoCache.with(recording, &block)
    recording.untracked_because
  end

  def cookies_of(&block)
    recording = Paceline::AutoCache::Recording.new(Paceline::AutoCache.readers)
    Paceline::AutoCache.with(recording, &block)
    found = []
    recording.each { |*fields, _| found << fields[2] if fields.first(2) == %w[V cookie] }
    found
  end

  def follow
    require "active_support"
    require "active_support/cache"
    require "rack"
    Paceline::AutoCache.install(root: __dir__) { |*| nil }
  end

  def test_entries_that_expire
    return if apart

    follow
    stores = [ActiveSupport::Cache::MemoryStore.new, ActiveSupport::Cache::FileStore.new(Dir.mktmpdir)]
    stores.each do |store|
      store.write("brief", 1, expires_in: 3600)
      store.write("long", 1)
      reads = { read: -> { store.read("brief") }, multi: -> { store.read_multi("long", "brief") }, exist: -> { store.exist?("brief") },
                fetch: -> { store.fetch("brief") { 2 } } }
      reads.each { |name, read| assert_equal "reads an entry of Rails.cache that expires", untracked(&read), "#{store.class} #{name}" }
      assert_nil(untracked { [store.read("long"), store.read_multi("long", "none"), store.exist?("long")] })
    end
  end

  # Keys that are announced, and how often each was done.
  class Notes
    attr_reader :lines

    def initialize = @lines = []

    # FileStore's keys are paths.
    def intend_keys(keys)
      lines << keys.map { |key| File.basename(key) }
      lines.size
    end

    def done(*) = lines << :done
  end

  # Most stores have these in place of those of all stores.
  def test_writes_of_each_store
    return if apart

    follow
    later = Class.new(ActiveSupport::Cache::MemoryStore) do
      # Rails 8.1 calls its local cache by it.
      def self.name = "Later"
      def clear(...) = [super].first
    end
    notes = Paceline::AutoCache.journal = Notes.new
    [ActiveSupport::Cache::MemoryStore.new, ActiveSupport::Cache::FileStore.new(Dir.mktmpdir), later.new].each do |store|
      writes = { write: -> { store.write("a", 1) }, increment: -> { store.increment("a") }, decrement: -> { store.decrement("a") }, delete: -> { store.delete("a") },
                 multi: -> { store.write_multi("a" => 1) }, clear: -> { store.clear }, matched: -> { store.delete_matched(/a/) }, cleanup: -> { store.cleanup } }
      writes.each do |name, write|
        notes.lines.clear
        write.call
        assert_equal [%i[clear matched cleanup].include?(name) ? ["*"] : ["a"], :done], notes.lines, "#{store.class} #{name}"
      end
      notes.lines.clear
      store.fetch("a") { store.write("b", 1) }
      assert_equal [["b"], :done, ["a"], :done], notes.lines, store.class
    end
  ensure
    Paceline::AutoCache.journal = nil if Paceline.const_defined?(:AutoCache)
  end

  def test_what_counts_in_a_store
    return if apart

    follow
    # The file's has its local cache before Paceline's methods, as has that of Redis, and Rails 8.1's of memory.
    store, file = ActiveSupport::Cache::MemoryStore.new, ActiveSupport::Cache::FileStore.new(Dir.mktmpdir)
    assert_equal ["counts in Rails.cache"] * 2, [store, file].map { |one| untracked { one.increment("views") } }
    limit = eval("-> { store.increment('rate') }", binding, "/gems/actionpack-8.0/lib/action_controller/metal/rate_limiting.rb", __LINE__)
    assert_nil untracked(&limit)
    assert_equal "reads a raw entry of Rails.cache, which may expire", untracked { store.read("views", raw: true) }
  end

  # An answer of a server over a socket; nil: it counts as something else.
  def test_other_servers
    return if apart

    follow
    server = TCPServer.new("127.0.0.1", 0)
    answers = Thread.new { server.accept.then { |one| one.write("1\n") while one.gets } }
    socket = TCPSocket.new("127.0.0.1", server.addr[1])
    ask = eval("-> { socket.puts('GET a') || socket.gets }", binding, "/gems/redis-4.8/lib/redis.rb", __LINE__)
    assert_nil(untracked { socket.puts("x") })
    assert_equal "asks another server", untracked { socket.gets }
    assert_equal "asks another server", untracked(&ask)
    %w[activesupport-7.2/lib/active_support/cache/redis_cache_store.rb actionpack-7.2/lib/action_dispatch/request/session.rb].each do |file|
      by = eval("-> { ask.call }", binding, "/gems/#{file}", __LINE__)
      assert_nil untracked(&by), file
    end
  ensure
    socket&.close
    answers&.join
    server&.close
  end

  def test_searches_for_files
    return if apart

    follow
    Dir.mktmpdir do |dir|
      [-> { Dir.glob("#{dir}/1.*") }, -> { Dir["#{dir}/*.png"] }, -> { Dir.glob("*", base: dir) }, -> { Dir.children(dir) }].each do |search|
        recording = Paceline::AutoCache::Recording.new(Paceline::AutoCache.readers)
        Paceline::AutoCache.with(recording, &search)
        assert_equal [["F", dir]], recording.to_enum.map { |*fields, _| fields }
      end
      assert_equal "lists files (#{dir}/*/1.png)", untracked { Dir.glob("#{dir}/*/1.png") }
    end
  end

  # A library in C reads from its sockets by itself.
  def test_a_client_in_c
    return if apart

    Object.const_set(:Trilogy, Class.new { def query(sql) = sql })
    follow
    assert_equal "asks another server", untracked { Trilogy.new.query("SELECT 1") }
    assert_nil(untracked { Paceline::AutoCache::Drivers.inside { Trilogy.new.query("SELECT 1") } }, "by Active Record")
  end

  def test_cookies_that_are_listed
    return if apart

    follow
    all = Paceline::AutoCache::Cookies.of("a" => "1", "b" => "2")
    assert_equal ["a"], cookies_of { all["a"] }
    found = []
    lists = { each: -> { all.each { |_, value| found << value } }, map: -> { all.map(&:last) }, keys: -> { all.keys }, values: -> { all.values }, to_a: -> { all.to_a },
              any: -> { all.any? }, empty: -> { all.empty? }, to_h: -> { all.to_h }, count: -> { all.count }, select: -> { all.select { |name,| name == "a" } },
              find: -> { all.find { |name,| name == "b" } }, sort: -> { all.sort }, inspect: -> { all.inspect }, size: -> { all.size } }
    lists.each { |name, list| assert_equal ["*"], cookies_of(&list), name }
    assert_equal({ "b" => "2" }, all.reject { |name,| name == "a" })
  end

  def test_another_server_is_named_without_its_query
    return if apart

    follow
    server = TCPServer.new("127.0.0.1", 0)
    answers = Thread.new { server.accept.then { |one| one.gets("\r\n\r\n") && one.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n") && one.close } }
    recording = Paceline::AutoCache::Recording.new(Paceline::AutoCache.readers)
    Paceline::AutoCache.with(recording) { Net::HTTP.get(URI("http://127.0.0.1:#{server.addr[1]}/rates?api_key=secret")) }
    answers.join
    found = []
    recording.each { |*fields, _| found << fields }
    assert_includes found, ["O", "http://127.0.0.1:#{server.addr[1]}/rates"]
  ensure
    server&.close
  end
end
