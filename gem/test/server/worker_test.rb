# frozen_string_literal: true

require "helper"

# A worker's life: forked, ready, drained, dying with the front, and never confused by what it reads.
class WorkerTest < Paceline::Test
  HELLO = { "config.ru" => "run ->(env) { [200, {}, [\"hello \" + Process.pid.to_s]] }" }.freeze

  def started(files = HELLO, threads: 1, **settings)
    with_front(files, **settings) do |front, dir|
      frame = front.await_start
      assert_equal F::LOADED, frame.type, frame.payload
      worker = front.fork_worker(threads: threads)
      yield front, worker, dir
    end
  end

  def get(channel, path = "/", env = {})
    channel.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => path }.merge(env)))
    FakeFront.answer(channel)
  end

  def test_a_channel_for_each_thread_and_a_pipe_for_each_output_before_ready
    started(threads: 3) do |_front, worker|
      worker.await(F::READY)
      assert_equal [1, 2, 3], worker.channels.keys.sort
      assert_equal %w[stderr stdout], worker.outputs.keys.sort
      worker.channels.each_value { |channel| assert_equal "hello #{worker.pid}", get(channel).body }
    end
  end

  def test_threads_serve_at_the_same_time
    files = { "config.ru" => "run ->(env) { [200, {}, [File.read(env['QUERY_STRING'])]] }" }
    started(files, threads: 2) do |_front, worker, dir|
      worker.await(F::READY)
      gates = %w[one two].map { |name| File.join(dir, name).tap { |path| File.mkfifo(path) } }
      gates.each_with_index do |gate, at|
        worker.channels[at + 1].send(F::REQUEST, FakeFront.request({ "QUERY_STRING" => gate }))
      end
      # Opening a FIFO waits for its reader: both threads must be inside the app, the second first.
      gates.reverse_each { |gate| File.write(gate, File.basename(gate)) }
      assert_equal %w[one two], [1, 2].map { |number| FakeFront.answer(worker.channels[number]).body }
    end
  end

  def test_the_worker_and_its_preloader_tell_what_their_heaps_hold
    files = { "config.ru" => <<~'RUBY' }
      run ->(env) { ($kept ||= []).concat(Array.new(50_000) { Object.new }); GC.start; [200, {}, []] }
    RUBY
    started(files) do |front, worker|
      worker.await(F::READY)
      get(worker.channels[1]) # collects what starting has left
      before = heap(worker.control)
      get(worker.channels[1])
      after = heap(worker.control)
      assert_operator after["live"], :>=, before["live"] + 49_000
      [before, after, heap(front.control)].each do |figures|
        assert_operator figures["slots"], :>=, figures["live"] + figures["free"]
        slots = figures["pools"].split.sum { |pool| pool.match(/\A\d+:(\d+):(\d*)\z/)[1].to_i }
        assert_in_delta figures["slots"], slots, figures["slots"] * 0.02
      end
      assert_operator after["major"], :>, before["major"]
      assert_operator after["gc_us"], :>, before["gc_us"]
      assert_operator after["gc_us"], :<, after["since_us"]
    end
  end

  def heap(control)
    control.send(F::ASK_MEMORY)
    control.await(F::MEMORY).pairs.to_h { |name, text| [name, name == "pools" ? text : text.to_i] }
  end

  def test_output_comes_by_the_pipes
    files = { "config.ru" => <<~'RUBY' }
      run ->(env) { puts "out"; warn "err"; env["rack.errors"].puts "errors"; [200, {}, []] }
    RUBY
    started(files) do |_front, worker|
      worker.await(F::READY)
      get(worker.channels[1])
      assert_equal "out\n", worker.outputs["stdout"].gets
      assert_equal ["err\n", "errors\n"], Array.new(2) { worker.outputs["stderr"].gets }
    end
  end

  def test_outputs_block_as_a_child_process_expects
    files = { "config.ru" => <<~'RUBY' }
      run ->(env) { [200, {}, [[STDOUT, STDERR].map { |io| io.fcntl(3) & File::NONBLOCK }.inspect]] }
    RUBY
    started(files) do |_front, worker|
      worker.await(F::READY)
      assert_equal "[0, 0]", get(worker.channels[1]).body
    end
  end

  def test_children_of_the_app_get_signals_as_usual
    files = { "config.ru" => "run ->(env) { [200, {}, [`grep SigIgn /proc/self/status`]] }" }
    started(files) do |_front, worker|
      worker.await(F::READY)
      ignored = get(worker.channels[1]).body[/\h{16}/].to_i(16)
      before = File.read("/proc/self/status")[/SigIgn:\s*(\h+)/, 1].to_i(16)
      %w[INT QUIT TERM HUP USR1 USR2].each do |name|
        bit = 1 << (Signal.list[name] - 1)
        assert_equal before & bit, ignored & bit, name
      end
    end
  end

  def test_idle_worker_drains_with_status_0
    started(threads: 2) do |front, worker|
      worker.await(F::READY)
      worker.control.send(F::DRAIN)
      assert_equal [worker.pid.to_s, "0"], front.control.await(F::EXITED).fields
      assert_nil worker.channels[1].read
    end
  end

  def test_term_drains_too
    started do |front, worker|
      worker.await(F::READY)
      Process.kill(:INT, worker.pid) # the terminal's, and the front's to act on
      Process.kill(:TERM, worker.pid)
      assert_equal [worker.pid.to_s, "0"], front.control.await(F::EXITED).fields
    end
  end

  def test_drain_finishes_the_request_in_hand_and_runs_at_exit
    files = { "config.ru" => <<~'RUBY' }
      run(lambda do |env|
        at_exit { puts "at_exit" }
        [200, {}, [File.read(env["QUERY_STRING"])]]
      end)
    RUBY
    started(files) do |front, worker, dir|
      worker.await(F::READY)
      File.mkfifo(gate = File.join(dir, "gate"))
      worker.channels[1].send(F::REQUEST, FakeFront.request({ "QUERY_STRING" => gate }))
      File.open(gate, "w") do |writer|
        worker.control.send(F::DRAIN)
        worker.control.send(F::ASK_BACKTRACE, F.fields(1)) # answered after DRAIN was obeyed
        worker.await(F::BACKTRACE)
        writer.write("late")
      end
      assert_equal "late", FakeFront.answer(worker.channels[1]).body
      assert_equal [worker.pid.to_s, "0"], front.control.await(F::EXITED).fields
      assert_equal "at_exit\n", worker.outputs["stdout"].read
    end
  end

  def test_what_goes_on_when_a_drain_is_over_is_interrupted_and_closed
    files = { "config.ru" => <<~'RUBY' }
      class Body
        def each
          yield "first"
          Queue.new.pop
        ensure
          puts "ensured"
        end
        def close = puts("closed")
      end
      run(lambda do |env|
        next [200, { "content-type" => "text/event-stream" }, Body.new] if env["PATH_INFO"] == "/events"
        File.write(env["QUERY_STRING"], "")
        Queue.new.pop
      ensure
        puts "left" if env["PATH_INFO"] == "/"
      end)
    RUBY
    started(files, threads: 2) do |front, worker, dir|
      worker.await(F::READY)
      worker.channels[1].send(F::REQUEST, FakeFront.request({ "PATH_INFO" => "/events" }))
      worker.channels[1].await(F::HEAD)
      File.mkfifo(entered = File.join(dir, "entered"))
      worker.channels[2].send(F::REQUEST, FakeFront.request({ "PATH_INFO" => "/", "QUERY_STRING" => entered }))
      File.read(entered)
      worker.control.send(F::DRAIN, F.fields(0))
      assert_includes worker.channels[2].await(F::ERROR).payload, "Paceline::RequestInterrupted"
      assert_equal [worker.pid.to_s, "0"], front.control.await(F::EXITED).fields
      assert_equal %w[closed ensured left], worker.outputs["stdout"].read.lines(chomp: true).sort
    end
  end

  def test_request_sent_just_before_drain_is_served
    started do |front, worker|
      worker.await(F::READY)
      worker.channels[1].send(F::REQUEST, FakeFront.request)
      worker.control.send(F::DRAIN)
      assert_equal 200, FakeFront.answer(worker.channels[1]).status
      assert_equal [worker.pid.to_s, "0"], front.control.await(F::EXITED).fields
    end
  end

  def test_backtrace_of_a_busy_thread
    files = { "config.ru" => "def slow(path) = File.read(path)\nrun ->(env) { [200, {}, [slow(env['QUERY_STRING'])]] }" }
    started(files) do |_front, worker, dir|
      worker.await(F::READY)
      File.mkfifo(gate = File.join(dir, "gate"))
      worker.channels[1].send(F::REQUEST, FakeFront.request({ "QUERY_STRING" => gate }))
      File.open(gate, "w") do |writer|
        worker.control.send(F::ASK_BACKTRACE, F.fields(1))
        number, lines = worker.await(F::BACKTRACE).fields
        assert_equal "1", number
        assert_match(/slow/, lines)
        worker.control.send(F::ASK_BACKTRACE, F.fields("nonsense"))
        worker.control.send(F::ASK_BACKTRACE, F.fields(7))
        assert_equal ["7", ""], worker.await(F::BACKTRACE).fields
        writer.write("done")
      end
      assert_equal "done", FakeFront.answer(worker.channels[1]).body
    end
  end

  def test_a_child_of_the_app_is_the_apps_own
    files = { "config.ru" => "run ->(env) { [200, {}, [`echo child` + $?.exitstatus.to_s]] }" }
    started(files) do |_front, worker|
      worker.await(F::READY)
      assert_equal "child\n0", get(worker.channels[1]).body
    end
  end

  def test_killed_worker_is_told_with_its_signal
    started do |front, worker|
      worker.await(F::READY)
      Process.kill(:KILL, worker.pid)
      assert_equal [worker.pid.to_s, "-9"], front.control.await(F::EXITED).fields
    end
  end

  def test_worker_goes_when_its_control_socket_ends
    started do |front, worker|
      worker.await(F::READY)
      worker.control.close
      assert_equal [worker.pid.to_s, "0"], front.control.await(F::EXITED).fields
    end
  end

  def test_workers_go_when_the_preloader_is_killed
    started do |front, worker|
      worker.await(F::READY)
      Process.kill(:KILL, front.pid)
      assert_nil worker.control.read
    end
  end

  def test_workers_go_when_the_front_is_gone
    started do |front, worker|
      worker.await(F::READY)
      front.control.close
      assert_nil worker.control.read
    end
  end

  GARBAGE = {
    "a frame of two gigabytes" => [0x7fff_ffff, F::REQUEST].pack("NC"),
    "a short REQUEST" => F.frame(F::REQUEST, "\1"),
    "an env longer than its frame" => F.frame(F::REQUEST, [F::INLINE, 9999].pack("CN")),
    "an env of an odd number of fields" => F.frame(F::REQUEST, [F::INLINE, 2].pack("CN") << "a\0"),
    "an env without its last NUL" => F.frame(F::REQUEST, [F::INLINE, 3].pack("CN") << "a\0b"),
    "flags of no kind" => F.frame(F::REQUEST, [0, 0].pack("CN"))
  }.freeze

  GARBAGE.each do |name, bytes|
    define_method("test_worker_ends_at_#{name.tr(" ", "_")}") do
      started do |front, worker|
        worker.await(F::READY)
        worker.channels[1].io.write(bytes)
        assert_equal [worker.pid.to_s, "1"], front.control.await(F::EXITED).fields
        assert_match(/ProtocolError/, worker.outputs["stderr"].read)
      end
    end
  end

  def test_half_a_frame_and_then_nothing_ends_the_thread_only
    started do |_front, worker|
      worker.await(F::READY)
      worker.channels[1].io.write("\0\0")
      worker.channels[1].io.close_write
      assert_nil worker.channels[1].read
      worker.control.send(F::ASK_BACKTRACE, F.fields(1))
      assert_equal "1", worker.await(F::BACKTRACE).fields.first # the worker lives on
    end
  end

  def test_a_thread_that_the_app_kills_is_replaced
    files = { "config.ru" => "run ->(env) { Thread.exit if env['QUERY_STRING'] == 'kill'; [200, {}, ['alive']] }" }
    started(files) do |_front, worker|
      worker.await(F::READY)
      first = worker.channels[1]
      first.send(F::REQUEST, FakeFront.request({ "QUERY_STRING" => "kill" }))
      assert_nil first.read
      worker.await(F::CHANNEL)
      assert_equal "alive", get(worker.channels[1]).body
    end
  end

  # An app that makes threads and socket pairs fail as often as it is told to, and answers how often the latter still will; pauses take no time.
  FAILING = { "config.ru" => <<~'RUBY' }.freeze
    FAILURES = Hash.new(0)
    module Failing
      def new(...) = (FAILURES[:thread] -= 1) >= 0 ? raise(ThreadError, "can't create Thread") : super
      def pair(...) = (FAILURES[:pair] -= 1) >= 0 ? raise(Errno::EMFILE) : super
    end
    Thread.singleton_class.prepend(Failing)
    UNIXSocket.singleton_class.prepend(Failing)
    Paceline::Server::Channel.class_eval { private def sleep(_) = nil }
    run(lambda do |env|
      env["rack.hijack"].call.close if env["PATH_INFO"] == "/hijack"
      what, often = env["QUERY_STRING"].split("=")
      FAILURES[what.to_sym] = often.to_i if what
      [200, {}, [FAILURES[:pair].to_s]]
    end)
  RUBY

  def test_a_spare_thread_that_cannot_be_made_has_no_channel
    %w[thread pair].each do |what|
      started(FAILING, err: File::NULL) do |_front, worker|
        worker.await(F::READY)
        get(worker.channels[1], "/", "QUERY_STRING" => "#{what}=1")
        worker.control.send(F::SPARE)
        # What comes next on the control socket answers this, and is no CHANNEL.
        worker.control.send(F::ASK_MEMORY)
        assert_equal F::MEMORY, worker.control.read.type
        worker.control.send(F::SPARE)
        assert_equal ["2"], worker.await(F::CHANNEL).fields
        assert_equal 200, get(worker.channels[2]).status
      end
    end
  end

  def test_the_thread_of_a_hijack_waits_for_descriptors
    started(FAILING) do |_front, worker|
      worker.await(F::READY)
      get(worker.channels[1], "/hijack", "QUERY_STRING" => "pair=3")
      worker.await(F::CHANNEL)
      assert_equal "-1", get(worker.channels[1]).body
    end
  end

  def test_a_worker_whose_thread_gets_no_channel_gives_up_after_many_tries
    started(FAILING, err: File::NULL) do |_front, worker|
      worker.await(F::READY)
      get(worker.channels[1], "/hijack", "QUERY_STRING" => "pair=1000000")
      assert_nil worker.control.read
    end
  end

  def test_workers_have_seeds_of_their_own
    files = { "config.ru" => "srand(1)\nrun ->(env) { [200, {}, [rand.to_s]] }" }
    started(files) do |front, worker|
      worker.await(F::READY)
      other = front.fork_worker(index: 2)
      other.await(F::READY)
      refute_equal get(worker.channels[1]).body, get(other.channels[1]).body
    end
  end
end
