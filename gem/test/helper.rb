# frozen_string_literal: true

# What every test needs: minitest, the fake front, and one running app for the tests that only send requests.
ENV["MT_NO_PLUGINS"] = "1" # plugins of gems that happen to be installed
require "minitest/autorun"
require "open3"
require "tmpdir"
require "support/fake_front"

# Whoever runs the tests in the background ignores these, and so would the processes that are tested.
%w[INT QUIT HUP].each { |name| trap(name, "DEFAULT") }
require "support/hang_watch"
require "support/stub"

module Paceline
  class Test < Minitest::Test
    F = Server::Frames
    APPS = File.expand_path("apps", __dir__)

    # A worker of the app in test/apps/bodies; one for all tests that leave it as they found it.
    def self.shared(lint)
      @@shared ||= {}
      @@shared[lint] ||= begin
        front = FakeFront.new(root: File.join(APPS, "bodies"), env: lint ? { "LINT" => "1" } : {})
        Minitest.after_run { front.stop }
        loaded = front.await_start
        raise loaded.pairs.inspect unless loaded.type == F::LOADED
        worker = front.fork_worker
        worker.await(F::READY)
        [front, worker, loaded.pairs["rack"].to_i]
      end
    end

    # Minitest 6 wants assert_nil where nil is expected, also where that is computed.
    def assert_equal(expected, actual, message = nil) = expected.nil? ? assert_nil(actual, message) : super

    def in_tmpdir(files = {})
      Dir.mktmpdir do |dir|
        dir = File.realpath(dir)
        files.each do |name, text|
          path = File.join(dir, name)
          FileUtils.mkdir_p(File.dirname(path))
          File.write(path, text)
        end
        yield dir
      end
    end

    # First in a test: runs it in a process of its own, and returns true; or false in that process. For what the libraries that other tests have
    # loaded don't bear: not all of their extensions know that objects may move.
    def apart
      return false if ENV["TEST_APART"]

      file, = method(name).source_location
      out, status = Open3.capture2e({ "TEST_APART" => "1" }, "timeout", "-s", "KILL", "150", RbConfig.ruby, "-I#{File.expand_path("../lib", __dir__)}",
                                    "-I#{__dir__}", file, "-n", "/\\A#{Regexp.escape(name)}\\z/", "-v")
      assert_predicate status, :success?, out
      skip(out[/Skipped:\n.*\n(.*)/, 1] || out) if out.include?(" 1 skips")
      assert_match(/^1 runs, [1-9]/, out)
      true
    end

    # No gem that Ruby 4.0 brings for sure, nor one that a bundle has.
    def needs_fiddle
      require "fiddle"
    rescue LoadError
      skip "fiddle is not there"
    end

    # Starts an app given as files, yields the front, and stops it whatever happens.
    def with_front(files, **settings)
      in_tmpdir(files) do |dir|
        front = FakeFront.new(**{ root: dir }.merge(settings))
        begin
          yield front, dir
        ensure
          front.stop
        end
      end
    end
  end
end
