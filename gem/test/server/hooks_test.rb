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

  def test_configuration_that_raises
    started("raise 'no such file'") do |front, frame|
      assert_equal F::FAILED, frame.type
      assert_equal "no such file", frame.pairs["message"]
      assert_match(%r{/puma\.rb\z}, frame.pairs["file"])
      assert_nil front.control.read
    end
  end
end
