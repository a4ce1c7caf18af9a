# frozen_string_literal: true

require_relative "support/caches"

# What Rails' tests of cache stores (test/cache_store/upstream) don't ask.
class PacelineFileStoreTest < CacheTestCase
  Gone = Struct.new(:value)

  def test_found_by_its_name_with_a_path_of_the_application
    Dir.chdir(@folder) { @file = "tmp/cache.paceline"; @store = rails_store }
    @store.write("a", 1)
    assert_equal File.realpath(File.join(@folder, "tmp/cache.paceline")), File.realpath(@store.cache_path)
    assert_kind_of ActiveSupport::Cache::PacelineFileStore, @store
    assert_match(/size=268435456/, @store.inspect)
    @file = @folder
    assert_match(/is a folder/, assert_raises(ArgumentError) { rails_store }.message)
  end

  def test_without_the_native_part_there_is_one_error_that_says_what_to_do
    skip "there is no Rails here" unless defined?(ActiveSupport::Cache)
    code = "require 'active_support'; require 'active_support/cache'
            begin; ActiveSupport::Cache.lookup_store(:paceline_file_store, 'c'); rescue => e; print e.message; end"
    said = IO.popen([{ "PACELINE_NATIVE" => "0" }, RbConfig.ruby, "-W0", "-I#{File.expand_path("../../lib", __dir__)}", "-e", code], &:read)
    assert_match(/a cache in a file \(.*\) needs the native part of the gem paceline: PACELINE_NATIVE=0 leaves it out; or use another store, as Rails' :file_store/, said)
  end

  def test_delete_matched_sees_whole_keys_and_namespaces
    store = rails_store(namespace: "shop")
    long = "views/#{"x" * 3000}/end"
    [long, "views/a", "other", "ä/views"].each { |key| store.write(key, 1) }
    other = rails_store
    other.write("views/of nobody", 1)
    other.write("\xFF\xFEviews", 1)
    assert_equal 2, store.delete_matched(/^views/)
    assert_equal [false, false, true, true], [long, "views/a", "other", "ä/views"].map { |key| store.exist?(key) }
    assert_equal 3, other.delete_matched(/views/)
    assert_equal 1, other.delete_matched("other")
    assert_equal 0, other.delete_matched(/./)
  end

  def test_keys_and_values_keep_their_encodings
    store = rails_store
    key = "schlüssel".encode("ISO-8859-1")
    store.write(key, "wert ä".encode("UTF-16LE"))
    assert_equal "wert ä".encode("UTF-16LE"), store.read(key)
    assert_equal Encoding::ISO_8859_1, key.encoding
    assert_equal ["\xFF".b, Encoding::BINARY], store.write("b", "\xFF".b) && [store.read("b"), store.read("b").encoding]
    assert_equal({ key => "wert ä".encode("UTF-16LE") }, store.read_multi(key, "none"))
  end

  def test_a_file_that_cannot_be_used_costs_no_more_than_the_cache
    log = StringIO.new
    store = rails_store(error_handler: nil)
    store.logger = Logger.new(log, level: :error)
    File.write(@file, "something else")
    5.times { |n| assert_equal n, store.fetch("a#{n}") { n } }
    assert_nil store.read("a")
    assert_equal false, store.delete("a")
    assert_equal({ "a" => 1, "b" => 1 }, store.fetch_multi("a", "b") { 1 })
    assert_equal [nil, 0, 0, 0], [store.clear, store.cleanup, store.delete_matched(/a/), store.delete_multi(["a"])]
    assert_equal 1, log.string.lines.size, log.string
    assert_match(/PacelineFileStore: read_entry failed, returned nil: Paceline::Records::Foreign: .*not a cache/, log.string)
    store.logger = nil
    assert_output(nil, /PacelineFileStore: read_entry failed/) { rails_store(error_handler: nil).read("a") }
    handled = []
    rails_store(error_handler: ->(method:, returning:, exception:) { handled << [method, returning, exception.class] }).read("a")
    assert_equal [[:read_entry, nil, Paceline::Records::Foreign]], handled
  ensure
    store.logger = nil if store
  end

  def test_an_entry_that_cannot_be_loaded_any_more_is_a_miss
    handled = []
    store = rails_store(error_handler: ->(method:, **) { handled << method })
    store.write("a", Gone.new(1))
    store.write("b", 2)
    gone = self.class.send(:remove_const, :Gone)
    assert_equal [:new, 2], [store.fetch("a") { :new }, store.read("b")]
    self.class.const_set(:Gone, gone)
    store.write("a", gone.new(1))
    self.class.send(:remove_const, :Gone)
    assert_equal({ "b" => 2 }, store.read_multi("a", "b"))
  ensure
    self.class.const_set(:Gone, gone) if gone && !self.class.const_defined?(:Gone)
  end

  def test_counting_keeps_what_rails_says_of_expiry
    skip "there is no Rails here" unless defined?(ActiveSupport::Cache)
    extend ActiveSupport::Testing::TimeHelpers
    new = ActiveSupport.gem_version >= Gem::Version.new("7.1")
    travel_to(Time.utc(2030)) do
      store = rails_store
      assert_equal new ? [3, -2] : [nil, nil], [store.increment("none", 3), store.decrement("gone", 2)]
      store.write("a", 5, expires_in: 10)
      assert_equal [6, 4], [store.increment("a"), store.decrement("a", 2)]
      travel(11)
      # Before Rails 7.1 counting writes anew, with the expiry that it is given.
      assert_equal [new ? nil : 4], [store.read("a")]
      store.write("text", "12 apples")
      assert_equal 13, store.increment("text")
      assert_equal 14, store.increment("text", 1, expires_in: 5)
    end
  end

  def test_expiry_at_a_moment_and_prune
    skip "there is no Rails here" unless defined?(ActiveSupport::Cache)
    extend ActiveSupport::Testing::TimeHelpers
    store = rails_store
    travel_to(Time.utc(2030)) do
      store.write("a", 1, expires_in: 10)
      store.write("b", 1)
      travel(9)
      assert store.exist?("a")
      travel(1)
      refute store.exist?("a")
      assert_equal 1, store.cleanup
    end
    200.times { |n| store.write("k#{n}", Random.bytes(3000)) }
    before = store.used
    assert_operator store.prune(before / 2), :>, 90
    assert_operator store.used, :<=, before / 2
    assert store.read("k199")
    assert_nil store.read("k0")
    assert_sound
  end
end
