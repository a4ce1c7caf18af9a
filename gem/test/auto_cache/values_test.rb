# frozen_string_literal: true

require "helper"
require "paceline/auto_cache"

# What counts as a read of a request's headers and cookies, by a line of an application without Rails.
class AutoCacheValuesTest < Paceline::Test
  ENVIRONMENT = { "HTTP_X_TENANT" => "one", "HTTP_COOKIE" => "a=1", "PATH_INFO" => "/", "REMOTE_ADDR" => "127.0.0.1" }.freeze

  # Its entries without their places, and the lines that read them.
  def recorded(readers = Paceline::AutoCache::Readers.new(__dir__))
    recording = Paceline::AutoCache::Recording.new(readers)
    Paceline::AutoCache.instance_variable_set(:@readers, readers)
    Paceline::AutoCache.with(recording) { yield Paceline::AutoCache::Env.of(ENVIRONMENT), Paceline::AutoCache::Cookies.of("a" => "1") }
    entries = []
    recording.each { |*fields, place| entries << [fields, place[/[\w.]+(?=:\d+\z)/]] }
    entries
  end

  ALL = [[["U", "reads all headers"], "values_test.rb"]].freeze
  ALL_COOKIES = [[["V", "cookie", "*", ""], "values_test.rb"]].freeze
  LISTS = {
    each: ->(hash) { hash.each {} }, each_pair: ->(hash) { hash.each_pair {} }, each_key: ->(hash) { hash.each_key {} }, keys: :keys.to_proc,
    each_value: ->(hash) { hash.each_value {} }, values: :values.to_proc, to_a: :to_a.to_proc, to_h: :to_h.to_proc, map: ->(hash) { hash.map(&:first) },
    find: ->(hash) { hash.find { false } }, select: ->(hash) { hash.select { true } }, reject: ->(hash) { hash.reject { true } },
    any: ->(hash) { hash.any? { false } }, except: ->(hash) { hash.except("PATH_INFO") }, size: :size.to_proc, count: :count.to_proc,
    inspect: :inspect.to_proc, text: ->(hash) { hash.to_s }, key: ->(hash) { hash.key("one") }, value: ->(hash) { hash.value?("one") },
    equal: ->(hash) { hash == {} }, transform: ->(hash) { hash.transform_values(&:size) }, sort: :sort.to_proc, flatten: :flatten.to_proc,
    group: ->(hash) { hash.group_by(&:first) }, with_index: ->(hash) { hash.each_with_index {} }, proc: ->(hash) { %w[a HTTP_X_TENANT].map(&hash) },
    delete_if: ->(hash) { hash.delete_if { false } }, conflict: ->(hash) { hash.merge("a" => "2", "HTTP_X_TENANT" => "") { |_, old,| old } }
  }.freeze

  def test_a_list_of_all
    LISTS.each do |name, list|
      assert_equal ALL, recorded { |env,| list.call(env) }, name
      assert_equal ALL_COOKIES, recorded { |_, cookies| list.call(cookies) }, name
    end
  end

  def test_a_copy_records_what_is_read_of_it
    copies = { dup: :dup.to_proc, clone: :clone.to_proc, merge: ->(env) { env.merge("x" => 1) }, itself: ->(env) { env.merge!("x" => 1) } }
    copies.each do |name, copy|
      assert_empty recorded { |env,| copy.call(env) }, name
      found = recorded { |env,| copy.call(env)["HTTP_X_TENANT"] }
      assert_equal [[["V", "header", "x-tenant", ""], "values_test.rb"]], found, name
      assert_equal ALL, recorded { |env,| copy.call(env).each {} }, name
    end
  end

  def test_reads_by_name
    named = [[["V", "header", "x-tenant", ""], "values_test.rb"]]
    [
      ->(env) { env["HTTP_X_TENANT"] }, ->(env) { env.fetch("HTTP_X_TENANT") }, ->(env) { env.key?("HTTP_X_TENANT") }, ->(env) { env.dig("HTTP_X_TENANT") },
      ->(env) { env.values_at("HTTP_X_TENANT", "PATH_INFO") }, ->(env) { env.fetch_values("HTTP_X_TENANT") }, ->(env) { env.assoc("HTTP_X_TENANT") },
      ->(env) { env.delete("HTTP_X_TENANT") }, ->(env) { env.slice("HTTP_X_TENANT") }
    ].each { |read| assert_equal named, recorded { |env,| read.call(env) } }
    assert_empty recorded { |env,| env["PATH_INFO"] || env["HTTP_X_FORWARDED_HOST"] }
    assert_equal [[["V", "header", "x-forwarded-port", ""], "values_test.rb"]], recorded { |env,| env["HTTP_X_FORWARDED_PORT"] }, "a host may lack it"
    assert_equal ALL_COOKIES, recorded { |env,| env["rack.request.cookie_hash"] }
  end

  def test_a_framework_that_lists_them_for_itself
    log = eval("->(env) { env.each {} }", binding, "/gems/railties-7.2/lib/rails/rack/logger.rb", 1)
    assert_empty recorded { |env,| log.call(env) }
  end
end
