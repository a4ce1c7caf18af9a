# frozen_string_literal: true

# What test/cache_store/upstream runs: Rails' behaviours of cache stores, included as Rails' tests of its own stores include them.
require "minitest/autorun"
require "minitest/mock"
require "stringio"
require "tmpdir"
# What some versions take for loaded.
require "logger"
require "active_support"
require "active_support/core_ext"
require "active_support/test_case"
require "active_support/testing/autorun"
require "active_support/testing/method_call_assertions"
require "active_support/cache"
require "zeitwerk" if ActiveSupport::VERSION::MAJOR < 7
require File.join(ENV.fetch("RAILS_CHECKOUT"), "test/cache/behaviors")
require "active_support/cache/paceline_file_store"

# A test asks whether the store is this one, which is there only with its client.
begin
  require "dalli"
rescue LoadError
  ActiveSupport::Cache.const_set(:MemCacheStore, Class.new(ActiveSupport::Cache::Store))
end

class ActiveSupport::TestCase
  include ActiveSupport::Testing::MethodCallAssertions
end

# As Rails' abstract_unit does.
ActiveSupport::Cache.format_version = 7.1 if ActiveSupport.gem_version >= Gem::Version.new("7.1")

class PacelineFileStoreTest < ActiveSupport::TestCase
  # All that there are, but LocalCacheBehavior and ConnectionPoolBehavior: there is no cache of the request in front of this store (Rails' FileStore has
  # had none since 7.0), and no connection.
  BEHAVIORS = %i[CacheStoreBehavior CacheStoreVersionBehavior CacheStoreCoderBehavior CacheStoreCompressionBehavior CacheStoreSerializerBehavior
                 CacheStoreFormatVersionBehavior CacheDeleteMatchedBehavior CacheIncrementDecrementBehavior CacheInstrumentationBehavior
                 CacheLoggingBehavior EncodedKeyCacheBehavior AutoloadingCacheBehavior FailureSafetyBehavior].freeze

  attr_reader :cache_dir

  def lookup_store(options = {})
    ActiveSupport::Cache.lookup_store(:paceline_file_store, File.join(@cache_dir, "cache.paceline"), options)
  end

  def setup
    @cache_dir = Dir.mktmpdir("paceline-file-store-")
    @cache = lookup_store(expires_in: 60)
    @peek = lookup_store(expires_in: 60)
    @buffer = StringIO.new
    @cache.logger = Logger.new(@buffer)
  end

  def teardown
    FileUtils.rm_rf(@cache_dir)
    @cache.logger = nil
  end

  # Those that this version of Rails has.
  BEHAVIORS.each { |name| include(Object.const_get(name)) if Object.const_defined?(name) }

  # What the store's own test of 7.1 and later says beside.
  def test_write_with_unless_exist
    assert_equal true, @cache.write(1, "aaaaaaaaaa")
    assert_equal false, @cache.write(1, "aaaaaaaaaa", unless_exist: true)
    @cache.write(1, nil)
    assert_equal false, @cache.write(1, "aaaaaaaaaa", unless_exist: true)
  end

  private

  # The file can't be used: it is none of ours.
  def emulating_unavailability(**options)
    folder = Dir.mktmpdir
    file = File.join(folder, "cache.paceline")
    File.write(file, "something else")
    yield ActiveSupport::Cache.lookup_store(:paceline_file_store, file, **options)
  ensure
    FileUtils.rm_rf(folder)
  end
end

if defined?(FailureRaisingBehavior)
  # Whose error is meant to come through.
  module Redis
    BaseError = Paceline::Records::Foreign
  end

  class PacelineFileStoreRaisingTest < PacelineFileStoreTest
    public_instance_methods.grep(/\Atest_/).each { |name| undef_method(name) }
    include FailureRaisingBehavior

    private

    def emulating_unavailability
      super(error_handler: ->(exception:, **) { raise exception })
    end
  end
end
