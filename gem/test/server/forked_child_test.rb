# frozen_string_literal: true

require "helper"

# The application forks in every way there is: the child never answers a request, and ends when its code has returned.
class ForkTest < Paceline::Test
  # Each path forks and answers how its child ended. What a child answers comes with "child".
  APP = <<~'RUBY'
    TOLD = ->(name, text) { File.write(File.join(__dir__, name), text) }
    def ended(pid) = [200, {}, [Process.wait2(pid)[1].then { |status| (status.exitstatus || status.termsig).to_s }]]
    def parent_or_child(pid) = pid.to_i.zero? ? [200, {}, ["child"]] : ended(pid)
    at_exit { TOLD.("at_exit", Process.pid.to_s) }
    LIBC_FORK = -> { require "fiddle"; Fiddle::Function.new(Fiddle.dlopen(nil)["fork"], [], Fiddle::TYPE_INT, need_gvl: true).call }

    # Forks when it is asked for its pieces.
    class Forking
      def initialize(pieces) = @pieces = pieces
      def each
        pid = fork
        @pieces.times { yield "x" * 1000 }
        pid.nil? ? yield("child") : yield(Process.wait2(pid)[1].exitstatus.to_s)
      end
    end
    # Forks when it is closed.
    class Closing
      def each = yield("closing")
      def close = (pid = fork) && TOLD.("closed", Process.wait2(pid)[1].exitstatus.to_s)
    end

    WAYS = {
      "/fork" => -> { parent_or_child(fork) },
      "/process" => -> { parent_or_child(Process.fork) },
      "/native" => -> { parent_or_child(LIBC_FORK.call) },
      "/fiber" => -> { Fiber.new { parent_or_child(fork) }.resume },
      "/double" => -> { (pid = fork) ? ended(pid) : parent_or_child(fork) },
      "/exit" => -> { (pid = fork) ? ended(pid) : exit(3) },
      "/exit!" => -> { (pid = fork) ? ended(pid) : exit!(4) },
      "/raise" => -> { (pid = fork) ? ended(pid) : raise("in the child") },
      "/thread" => -> { pid = nil; Thread.new { pid = fork }.join; ended(pid) },
      "/exec" => -> { ended(fork { exec("exit 5") }) },
      "/each" => -> { [200, {}, Forking.new(0)] },
      "/stream" => -> { [200, {}, Forking.new(200)] },
      "/close" => -> { [200, {}, Closing.new] },
      "/hijack" => lambda do
        pid = fork
        next ended(pid) if pid
        $env["rack.hijack"].call
      rescue IOError => e
        exit!(e.message.include?("forked") ? 6 : 7)
      end,
      "/after" => lambda do
        $env["rack.after_reply"] << -> { (pid = fork) && TOLD.("after", Process.wait2(pid)[1].exitstatus.to_s) }
        [200, {}, ["after"]]
      end,
      "/popen" => lambda do
        pipe = IO.popen("-") or next [200, {}, ["child"]]
        read = pipe.read
        pipe.close
        [200, {}, [$?.exitstatus.to_s, read]]
      end,
      "/term" => lambda do
        ready, ours = IO.pipe
        pid = fork { ours.write("x"); sleep }
        ready.read(1)
        Process.kill(:TERM, pid)
        ended(pid)
      end,
      "/sockets" => lambda do
        IO.popen("-") do |pipe|
          next [200, {}, [pipe.read]] if pipe
          Dir.children("/proc/self/fd").each { |number| puts(File.readlink("/proc/self/fd/#{number}")) rescue nil }
        end
      end,
      "/daemon" => lambda do
        Process.daemon(true, true)
        TOLD.("daemon", Process.pid.to_s)
        [200, {}, ["child"]]
      end,
    }
    run ->(env) { $env = env; WAYS.fetch(env["PATH_INFO"], -> { [200, {}, ["user=", env["QUERY_STRING"]]] }).call }
  RUBY

  def started(threads: 1)
    with_front({ "config.ru" => APP }) do |front, dir|
      assert_equal F::LOADED, front.await_start.type
      worker = front.fork_worker(threads: threads)
      worker.await(F::READY)
      yield worker, dir, front
    end
  end

  def get(worker, path, query: "", thread: 1)
    worker.channels[thread].send(F::REQUEST, FakeFront.request({ "PATH_INFO" => path, "QUERY_STRING" => query }))
    FakeFront.answer(worker.channels[thread])
  end

  # Nothing of a child lies between the answers that follow.
  def each_has_its_own(worker)
    3.times { |n| assert_equal "user=#{n}", get(worker, "/", query: n.to_s).body }
  end

  { "/fork" => "0", "/process" => "0", "/native" => "0", "/fiber" => "0", "/double" => "0", "/exit" => "3", "/exit!" => "4", "/raise" => "1",
    "/thread" => "0", "/exec" => "5", "/each" => "0", "/popen" => "0", "/hijack" => "6", "/term" => "15" }.each do |path, status|
    define_method("test_the_child_of_#{path.delete("/")}_ends_and_answers_nobody") do
      needs_fiddle if path == "/native"
      started do |worker|
        assert_equal status, get(worker, path).body
        each_has_its_own(worker)
      end
    end
  end

  def test_a_child_that_streams_is_told_that_nobody_reads
    started do |worker|
      body = get(worker, "/stream").body
      assert_equal [200_001, "0"], [body.size, body[-1]]
      each_has_its_own(worker)
    end
  end

  def test_the_children_of_what_comes_after_the_response
    started do |worker, dir|
      { "/close" => "closed", "/after" => "after" }.each do |path, name|
        answer = get(worker, path)
        assert_predicate answer, :busy?
        assert_equal "0", File.read(File.join(dir, name))
      end
      each_has_its_own(worker)
    end
  end

  # As in any Ruby process: `exit` runs them, the end of somebody else's thread does not.
  def test_handlers_of_at_exit_run_in_a_child_that_calls_exit
    started do |worker, dir|
      get(worker, "/fork")
      get(worker, "/exit!")
      refute_path_exists File.join(dir, "at_exit")
      get(worker, "/exit")
      refute_equal worker.pid, Integer(File.read(File.join(dir, "at_exit")))
      each_has_its_own(worker)
    end
  end

  def test_what_a_child_raises_is_printed
    started do |worker|
      get(worker, "/raise")
      assert_match(%r{GET /raise: .*in the child}, worker.outputs["stderr"].gets)
    end
  end

  def test_a_child_holds_no_socket_of_the_worker
    started(threads: 3) do |worker|
      ours = Dir.children("/proc/#{worker.pid}/fd").map { |number| File.readlink("/proc/#{worker.pid}/fd/#{number}") rescue "" }.grep(/socket/)
      assert_operator ours.size, :>=, 4
      assert_empty get(worker, "/sockets").body.lines(chomp: true) & ours
      each_has_its_own(worker)
    end
  end

  def test_a_daemon_is_no_worker_any_more
    started do |worker, dir, front|
      File.mkfifo(File.join(dir, "daemon"))
      worker.channels[1].send(F::REQUEST, FakeFront.request({ "PATH_INFO" => "/daemon" }))
      refute_equal worker.pid, Integer(Timeout.timeout(FakeFront::LIMIT) { File.read(File.join(dir, "daemon")) })
      assert_nil worker.channels[1].read
      assert_equal [worker.pid.to_s, "0"], front.control.await(F::EXITED).fields
    end
  end

  def test_a_child_that_is_forked_while_the_app_loads_reports_nothing
    ru = 'fork; run ->(env) { [200, {}, ["loaded"]] }'
    with_front({ "config.ru" => ru }) do |front|
      assert_equal F::LOADED, front.await_start.type
      2.times do |n|
        worker = front.fork_worker(index: n + 1)
        worker.await(F::READY)
        assert_equal "loaded", get(worker, "/").body
      end
      assert_equal [%w[boot begin], %w[boot done]], front.steps.map { |step| step.first(2) }.select { |name, _| name == "boot" }
    end
  end

  def test_what_an_app_keeps_of_a_request_works_for_that_request_alone
    ru = <<~'RUBY'
      run(lambda do |env|
        $kept ||= env
        [200, {}, ["hijack", "early_hints"].map { |name| $kept["rack.#{name}"].call(*({ "link" => "x" } if name == "early_hints")).inspect rescue $!.class.name }]
      end)
    RUBY
    with_front({ "config.ru" => ru }) do |front|
      front.await_start
      worker = front.fork_worker
      worker.await(F::READY)
      worker.channels[1].send(F::REQUEST, FakeFront.request)
      assert_equal [F::HIJACK], FakeFront.answer(worker.channels.delete(1)).types
      worker.await(F::CHANNEL)
      answer = get(worker, "/")
      assert_equal [[F::RESPONSE], "IOErrornil"], [answer.types, answer.body]
    end
  end

  def test_the_stream_of_a_response_that_is_over_takes_nothing_more
    ru = <<~'RUBY'
      run(lambda do |env|
        next [200, {}, ->(stream) { $stream = stream; stream.write("first") }] if env["PATH_INFO"] == "/first"
        late = ($stream.write("x" * 100_000) && "taken") rescue $!.message
        [200, {}, [late]]
      end)
    RUBY
    with_front({ "config.ru" => ru }) do |front|
      front.await_start
      worker = front.fork_worker
      worker.await(F::READY)
      assert_equal "first", get(worker, "/first").body
      assert_equal "this response has ended", get(worker, "/second").body
    end
  end
end
