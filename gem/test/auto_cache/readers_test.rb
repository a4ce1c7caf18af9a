# frozen_string_literal: true

require "helper"
require "paceline/auto_cache"

# Which reader counts, by the file it is in.
class AutoCacheReadersTest < Paceline::Test
  GEMS = %w[
    /usr/share/rubygems-integration/all/gems /home/rails/.rbenv/versions/3.3.0/lib/ruby/gems/3.3.0/gems /rails/vendor/bundle/ruby/3.3.0/gems
    /usr/local/bundle/ruby/3.3.0/bundler/gems /home/pg/rack/bundler/gems
  ].freeze

  def kind(path, root = "/srv/shop") = Paceline::AutoCache::Readers.new(root).send(:kind_of, path)

  def test_a_gem_counts_wherever_it_is_installed
    GEMS.each do |folder|
      assert_equal :library, kind("#{folder}/geocoder-1.8/lib/geocoder/request.rb"), folder
      assert_equal :library, kind("#{folder}/geocoder-1.8/lib/geocoder/request.rb", "/rails"), folder
      %w[
        activerecord-7.2.2.2/lib/active_record/base.rb railties-7.2/lib/rails/engine.rb rack-3.1/lib/rack/head.rb pg-1.5/lib/pg/result.rb
        rails-1a2b3c/activerecord/lib/active_record/base.rb bundler-2.5/lib/bundler/setup.rb paceline-1.0/lib/paceline/server/worker.rb
      ].each { |file| assert_equal :harmless, kind("#{folder}/#{file}"), "#{folder}/#{file}" }
      assert_equal :passing, kind("#{folder}/rack-3.1/lib/rack/request.rb"), folder
      assert_equal :outside, kind("#{folder}/paceline-1.0/lib/paceline/auto_cache/middleware.rb"), folder
    end
  end

  def test_a_library_in_a_folder_of_rack_or_rails
    folder = GEMS.first
    %w[rack-contrib-2.4/lib/rack/contrib/locale.rb rack-contrib-2.4/lib/rack/locale.rb rack-user_agent-0.5/lib/rack/user_agent/detector.rb
       activeadmin-2.9/lib/active_admin/views/header.rb menu-1.0/lib/menu/rails/helper.rb].each { |file| assert_equal :library, kind("#{folder}/#{file}"), file }
    %w[rack-attack-6.7/lib/rack/attack/throttle.rb rack-timeout-0.6/lib/rack/timeout/core.rb rack-session-2.0/lib/rack/session/cookie.rb
       rack-1a2b3c/lib/rack.rb actionpack-7.2.2/lib/action_controller/metal/url_for.rb].each { |file| assert_equal :harmless, kind("#{folder}/#{file}"), file }
    assert_equal :library, kind("/usr/lib/ruby/vendor_ruby/rack/contrib/locale.rb")
  end

  # Files of engines and libraries that are called like those of a logger, of Rack, of Ruby or of this cache.
  def test_no_name_of_a_file_makes_a_library_harmless
    files = %w[
      app/controllers/shop/notifications_controller.rb app/models/notifications.rb lib/shop/log_in.rb lib/shop/logger.rb lib/shop/logging/user.rb
      lib/instrumentation.rb lib/shop/rack/request.rb lib/shop/rack/utils.rb lib/rack/request.rb lib/action_dispatch/http/headers.rb lib/abstract_controller/base.rb
      lib/shop/date.rb lib/shop/time.rb lib/shop/set.rb lib/concurrent/cart.rb lib/shop/timeout.rb lib/net/user.rb lib/pg/user.rb lib/sqlite3/user.rb
      lib/auto_cache/user.rb lib/auto_cache/middleware.rb lib/shop/connection_pool.rb lib/active_support/messages/metadata.rb lib/rails/menu.rb
    ]
    files.each do |file|
      GEMS.each { |folder| assert_equal :library, kind("#{folder}/shop-2.1/#{file}"), "#{folder}/#{file}" }
      assert_equal :library, kind("/srv/engines/shop/#{file}"), file
      assert_equal :application, kind("/srv/shop/#{file}"), file
    end
    %w[lograge-0.14/lib/lograge.rb semantic_logger-4.15/lib/semantic_logger/base.rb opentelemetry-instrumentation-rack-0.24/lib/x.rb
       net-http-0.4.1/lib/net/http.rb sqlite3-2.1.0-x86_64-linux-gnu/lib/sqlite3/statement.rb].each { |file| assert_equal :harmless, kind("#{GEMS.first}/#{file}"), file }
    assert_equal :passing, kind("/usr/lib/ruby/3.3.0/date.rb")
    assert_equal :passing, kind("/usr/lib/ruby/vendor_ruby/action_dispatch/http/request.rb")
  end

  def test_what_is_not_installed_counts
    %w[/srv/rails/engines/blog/app/helpers/menu.rb /srv/rack/shop/lib/x.rb /home/pg/timeout.rb /rails/engines/blog/app/helpers/menu.rb /rails-7.1/blog/menu.rb /pg/x.rb].each do |path|
      assert_equal :library, kind(path), path
    end
  end

  def test_rails_reads_for_the_application
    %w[action_dispatch/journey/route.rb action_controller/metal/allow_browser.rb].each do |file|
      assert_equal :library, kind("#{GEMS.first}/actionpack-7.2.2/lib/#{file}"), file
    end
  end

  def test_something_signed_that_ends
    readers = Paceline::AutoCache::Readers.new(__dir__)
    ends = eval("-> { readers.reader }", binding, "#{GEMS.first}/activesupport-7.2/lib/active_support/messages/metadata.rb", 1)
    assert_match(/\Areaders_test\.rb:\d+\z/, ends.call)
    assert_nil eval("-> { ends.call }", binding, "#{GEMS.first}/actionpack-7.2/lib/action_dispatch/middleware/cookies.rb", 1).call
  end

  def append_info_to_payload(readers) = [1].map { readers.reader }.first

  def test_what_a_controller_adds_to_the_log
    readers = Paceline::AutoCache::Readers.new(__dir__)
    assert_match(/\Areaders_test\.rb:\d+\z/, readers.reader)
    assert_nil append_info_to_payload(readers)
  end

  def test_other_files
    assert_equal :application, kind("/rails/app/models/post.rb", "/rails")
    assert_equal :library, kind("/rails/vendor/engines/shop.rb", "/rails")
    assert_equal :library, kind("/home/rails/.rbenv/versions/3.3.0/lib/ruby/3.3.0/csv.rb")
    assert_equal :harmless, kind("/usr/lib/ruby/3.3.0/logger.rb")
    assert_equal :harmless, kind("/usr/lib/ruby/vendor_ruby/rack/head.rb")
    assert_equal :harmless, kind("/home/ann/paceline/gem/lib/paceline/server/worker.rb")
    assert_equal :harmless, kind("/home/ann/paceline/gem/lib/paceline/server/worker.rb", "/home/ann/paceline")
    assert_equal :harmless, kind(File.expand_path("../../lib/active_support/cache/paceline_file_store.rb", __dir__))
    assert_equal :passing, kind("<internal:kernel>")
  end
end
