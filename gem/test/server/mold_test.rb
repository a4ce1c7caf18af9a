# frozen_string_literal: true

require "helper"

# A worker becomes the preloader of others, or says why not and goes on.
class MoldTest < Paceline::Test
  COUNTING = <<~'RUBY'
    $seen = []
    run ->(env) do
      $seen << env["PATH_INFO"]
      $held = TCPSocket.new("127.0.0.1", env["QUERY_STRING"].to_i) if env["PATH_INFO"] == "/connect"
      Thread.new { sleep }.name = "beat" if env["PATH_INFO"] == "/thread"
      File.read(env["QUERY_STRING"]) if env["PATH_INFO"] == "/wait"
      [200, {}, ["#{Process.pid} #{Process.ppid} #{$seen.join(" ")} #{$told&.join(" ")}"]]
    end
  RUBY
  HOOKS = <<~'RUBY'
    $told = []
    before_fork { $told << "before_fork" }
    before_refork { $told << "before_refork"; $held&.close }
    after_refork { $told << "after_refork" }
    before_worker_boot { |index| $told << "boot:#{index}" }
    before_thread_start { $told << "thread" }
    before_thread_exit { $told << "exit" }
    before_worker_shutdown { $told << "shutdown" }
  RUBY

  def started(threads: 1, hooks: "")
    in_tmpdir("config.ru" => COUNTING, "puma.rb" => hooks) do |dir|
      @hooks_file = File.join(dir, "puma.rb")
      front = FakeFront.new(root: dir, puma_config: @hooks_file, refork: "1", front: Process.pid)
      begin
        assert_equal F::LOADED, front.await_start.type
        worker = front.fork_worker(threads: threads)
        worker.await(F::READY)
        yield front, worker, dir
      ensure
        front.stop
      end
    end
  end

  def get(worker, path, query = "", thread: 1)
    worker.channels[thread].send(F::REQUEST, FakeFront.request({ "PATH_INFO" => path, "QUERY_STRING" => query }))
    FakeFront.answer(worker.channels[thread]).body
  end

  # As the front does: no more requests, and the frame.
  def ask(worker, leave: [], patience: 30)
    (worker.channels.keys - leave).each { |thread| worker.channels.delete(thread).close }
    worker.control.send(F::MOLD, F.fields(patience))
  end

  def mold(front, worker)
    ask(worker)
    frame = worker.await(F::PROMOTED)
    front.control.send(F::RELEASE, F.fields(worker.pid))
    control = FakeFront::UnbufferedWire.new(frame.fd)
    control.send(F::START, F.pairs("root" => "/", "kind" => "rack", "site" => "test", "environment" => "test", "refork" => "1",
                                     "front" => Process.pid.to_s, "puma_config" => @hooks_file))
    loaded = control.await(F::LOADED)
    assert_equal [worker.pid.to_s, RUBY_VERSION], loaded.pairs.values_at("pid", "ruby")
    control
  end

  def child(control, index: 1)
    control.send(F::FORK, F.fields(index, 1))
    frame = control.await(F::FORKED)
    FakeFront::Worker.new(index, frame.fields[1].to_i, frame.fd).tap { |worker| worker.await(F::READY) }
  end

  def test_its_workers_have_what_its_requests_left
    started(threads: 3) do |front, worker|
      get(worker, "/one", thread: 1)
      get(worker, "/two", thread: 3)
      control = mold(front, worker)
      assert_equal "#{(one = child(control)).pid} #{worker.pid} /one /two /three ", get(one, "/three")
      assert_equal "#{(two = child(control, index: 2)).pid} #{worker.pid} /one /two /four ", get(two, "/four")
      one.control.send(F::DRAIN)
      assert_equal [one.pid.to_s, "0"], control.await(F::EXITED).fields
      control.close
      assert_nil two.control.read, "workers die with their mold"
    end
  end

  def test_it_outlives_its_preloader
    started do |front, worker|
      control = mold(front, worker)
      front.control.close
      Process.wait(front.pid)
      one = child(control)
      assert_match(/\A#{one.pid} #{worker.pid} /, get(one, "/"))
      Process.kill(:KILL, worker.pid)
      assert_nil one.control.read
    end
  end

  def test_hooks_in_their_order
    started(hooks: HOOKS) do |front, worker|
      one = child(mold(front, worker))
      assert_equal "/ before_fork boot:0 thread exit before_refork before_fork boot:0 thread", get(one, "/").split(" ", 3).last
    end
  end

  def test_a_thread_is_named_and_the_worker_goes_on
    started(threads: 2, hooks: HOOKS) do |front, worker, dir|
      get(worker, "/thread")
      ask(worker)
      assert_equal ["thread \"beat\" started at #{dir}/config.ru:5 runs. End it in before_refork of config/puma.rb"], worker.await(F::UNSAFE).fields
      2.times { worker.await(F::CHANNEL) }
      told = get(worker, "/", thread: 2)
      assert_match(%r{\A#{worker.pid} #{front.pid} /thread / before_fork boot:0 (?:(?:thread|exit) ){4}before_refork after_refork(?: thread){1,2}\z}, told)
    end
  end

  def test_a_connection_that_is_closed_by_a_hook_or_is_not
    TCPServer.open("127.0.0.1", 0) do |server|
      port = server.addr[1]
      started do |_front, worker|
        get(worker, "/connect", port.to_s)
        ask(worker)
        assert_match(/\Aa connection to 127\.0\.0\.1:#{port} is open \(descriptor \d+, TCPSocket\)\. End it/, worker.await(F::UNSAFE).fields.join("|"))
        worker.await(F::CHANNEL)
        assert_match(%r{/connect / \z}, get(worker, "/"))
      end
      started(hooks: HOOKS) do |front, worker|
        get(worker, "/connect", port.to_s)
        child(mold(front, worker))
      end
    end
  end

  def test_of_many_obstacles_the_first_are_told
    started do |_front, worker|
      5.times { get(worker, "/thread") }
      ask(worker)
      assert_match(/\A(thread "beat" started at \S+ runs; ){3}and 2 more\. End it/, worker.await(F::UNSAFE).fields[0])
    end
  end

  def test_a_hook_that_raises
    started(hooks: "before_refork { raise 'no' }") do |_front, worker|
      ask(worker)
      assert_match(/\Abefore_refork raised RuntimeError: no \(.*puma\.rb:1/, worker.await(F::UNSAFE).fields[0])
      worker.await(F::CHANNEL)
      get(worker, "/")
    end
  end

  def test_requests_in_hand_are_finished_first
    started(threads: 2) do |_front, worker, dir|
      File.mkfifo(gate = File.join(dir, "gate"))
      held = worker.channels[1]
      held.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => "/wait", "QUERY_STRING" => gate }))
      get(worker, "/free", thread: 2)
      ask(worker, leave: [1])
      File.write(gate, "go")
      assert_match(/ \/wait/, FakeFront.answer(held).body)
      held.close
      worker.await(F::PROMOTED)
    end
  end

  def test_requests_that_take_too_long
    started(threads: 2) do |_front, worker, dir|
      File.mkfifo(gate = File.join(dir, "gate"))
      held = worker.channels[1]
      held.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => "/wait", "QUERY_STRING" => gate }))
      get(worker, "/free", thread: 2)
      ask(worker, leave: [1], patience: 0)
      # The other may not have ended yet.
      why, busy = worker.await(F::UNSAFE).fields
      assert_match(/\A(1 of its threads is|2 of its threads are) still in a request or a stream\z/, why)
      assert_equal "busy", busy
      assert_equal "2", worker.await(F::CHANNEL).fields[0]
      assert_match(/ \/other/, get(worker, "/other", thread: 2))
      File.write(gate, "go")
      FakeFront.answer(held)
      held.close # the front had not read UNSAFE yet
      assert_equal "1", worker.await(F::CHANNEL).fields[0]
      get(worker, "/", thread: 1)
    end
  end

  def test_drained_while_it_prepares
    started do |front, worker, dir|
      File.mkfifo(gate = File.join(dir, "gate"))
      held = worker.channels[1]
      held.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => "/wait", "QUERY_STRING" => gate }))
      ask(worker, leave: [1])
      worker.control.send(F::DRAIN)
      # It still listens, and has read DRAIN.
      loop do
        worker.control.send(F::ASK_BACKTRACE, F.fields("1"))
        break if worker.await(F::BACKTRACE).fields[1].include?("config.ru")
      end
      File.write(gate, "go")
      FakeFront.answer(held)
      assert_nil worker.control.read
      assert_equal [worker.pid.to_s, "0"], front.control.await(F::EXITED).fields
    end
  end
end
