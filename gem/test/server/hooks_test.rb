# frozen_string_literal: true

require "helper"

# The hooks of config/puma.rb: each in its process, in its order, with its index.
class HooksTest < Paceline::Test
  def files(config)
    { "config.ru" => "run ->(env) { [200, {}, [$told.join(' ')]] }", "puma.rb" => "$told = []\n#{config}" }
  end

  def started(config)
    in_tmpdir(files(config)) do |dir|
      front = FakeFront.new(root: dir, puma_config: File.join(dir, "puma.rb"), err: File::NULL)
      begin
        yield front, front.await_start
      ensure
        front.stop
      end
    end
  end

  def body(worker)
    worker.channels[1].send(F::REQUEST, FakeFront.request)
    FakeFront.answer(worker.channels[1]).body
  end

  def test_order_and_indexes
    config = <<~'RUBY'
      before_fork { $told << "before_fork" }
      before_worker_boot { |index| $told << "boot:#{index}" }
      on_worker_boot { $told << "old_name" }
      before_thread_start { $told << "thread" }
      before_thread_exit { puts "thread_exit" }
      before_worker_shutdown { |index| puts "shutdown:#{index}" }
    RUBY
    started(config) do |front, frame|
      assert_equal F::LOADED, frame.type, frame.payload
      workers = [1, 2].map { |index| front.fork_worker(index: index).tap { |worker| worker.await(F::READY) } }
      assert_equal ["before_fork boot:0 old_name thread", "before_fork boot:1 old_name thread"], workers.map { |worker| body(worker) }
      workers[1].control.send(F::DRAIN)
      assert_equal [workers[1].pid.to_s, "0"], front.control.await(F::EXITED).fields
      assert_equal "thread_exit\nshutdown:1\n", workers[1].outputs["stdout"].read
    end
  end

  def test_boot_hook_that_raises
    started("before_worker_boot { raise 'no cache' }") do |front, frame|
      assert_equal F::LOADED, frame.type
      worker = front.fork_worker
      assert_equal ["ready", "no cache"], worker.await(F::WORKER_FAILED).pairs.values_at("step", "message")
      assert_equal "1", front.control.await(F::EXITED).fields[1]
    end
  end

  def test_what_is_raised_before_the_first_fork_is_the_applications_failure
    { "before_fork { raise 'no queue' }" => "no queue", "before_fork { require 'no_such_gem' }" => "cannot load such file -- no_such_gem",
      "before_fork { exit 3 }" => "the application called exit with status 3 while it was starting", "before_worker_fork { raise 'no worker' }" => "no worker" }.each do |config, message|
      started(config) do |front, frame|
        assert_equal F::LOADED, frame.type
        front.control.send(F::FORK, F.fields(1, 1))
        failed = front.control.await(F::FAILED)
        assert_equal ["fork", message], failed.pairs.values_at("step", "message"), config
        assert_match(%r{/puma\.rb\z}, failed.pairs["file"])
        assert_nil front.control.read
      end
    end
  end

  def test_what_is_raised_for_a_later_worker_keeps_it_from_nothing
    config = "before_worker_fork { |index| require 'no_such_gem' if index == 1 }\nafter_worker_fork { require 'no_such_gem' }\nbefore_thread_start { require 'no_such_gem' }"
    started(config) do |front, _|
      workers = [1, 2].map { |index| front.fork_worker(index: index).tap { |worker| worker.await(F::READY) } }
      assert_equal ["", ""], workers.map { |worker| body(worker) }
    end
  end

  def test_configuration_that_raises
    started("raise 'no such file'") do |front, frame|
      assert_equal F::FAILED, frame.type
      assert_equal "no such file", frame.pairs["message"]
      assert_match(%r{/puma\.rb\z}, frame.pairs["file"])
      assert_nil front.control.read
    end
  end

  # Puma gives it as many of error, env and status as it takes.
  def test_lowlevel_error_handler_in_each_form
    rackup = "run ->(env) { raise ArgumentError, 'nobody' }"
    {
      "lowlevel_error_handler { |error| [500, {}, [error.class.name]] }" => "ArgumentError",
      "lowlevel_error_handler ->(error, env) { [500, nil, [env['PATH_INFO']]] }" => "/",
      "lowlevel_error_handler { |error, env, status| [status, {}, ['three']] }" => "three",
      "class Handler; def self.call(error, env, status = 1) = [status, {}, ['object']]; end; lowlevel_error_handler Handler" => "object"
    }.each do |config, expected|
      in_tmpdir("config.ru" => rackup, "puma.rb" => config) do |dir|
        front = FakeFront.new(root: dir, puma_config: File.join(dir, "puma.rb"), err: File::NULL)
        front.await_start
        worker = front.fork_worker.tap { |it| it.await(F::READY) }
        assert_equal expected, body(worker), config
      ensure
        front&.stop
      end
    end
  end

  # Each of these ends in the server's own error page, and the thread goes on.
  def test_lowlevel_error_handler_that_fails
    [
      "lowlevel_error_handler { raise 'it too' }", "lowlevel_error_handler { exit }", "lowlevel_error_handler { 'no response' }",
      "lowlevel_error_handler { [500, {}, nil.no_body] }", "lowlevel_error_handler { [99, {}, []] }"
    ].each do |config|
      in_tmpdir("config.ru" => "run ->(env) { raise ArgumentError, 'nobody' }", "puma.rb" => config) do |dir|
        front = FakeFront.new(root: dir, puma_config: File.join(dir, "puma.rb"), err: File::NULL)
        front.await_start
        worker = front.fork_worker.tap { |it| it.await(F::READY) }
        2.times do
          worker.channels[1].send(F::REQUEST, FakeFront.request)
          assert_equal "ArgumentError", FakeFront.answer(worker.channels[1]).error["class"], config
        end
      ensure
        front&.stop
      end
    end
  end
end
