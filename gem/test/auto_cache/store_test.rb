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
