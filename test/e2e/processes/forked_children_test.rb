# The application forks: nobody gets another visitor's answer, and nobody waits for the child.
require_relative "../support/scenario"

class ForkedChildrenTest < Minitest::Test
  include Scenario

  CLIENTS = 6
  REQUESTS = 60

  def teardown
    super
    Array(@children).each do |pid|
      Process.kill(:KILL, pid)
    rescue Errno::ESRCH
      nil
    end
  end

  # Forks as a C library does that knows nothing of Ruby: the child keeps all that the worker has open, and the worker's death is no EOF.
  HOLDING = <<~RUBY.freeze
    require "fiddle"
    LIBC_FORK = Fiddle::Function.new(Fiddle.dlopen(nil)["fork"], [], Fiddle::TYPE_INT, need_gvl: true)
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/fork" then (child = LIBC_FORK.call).zero? ? exec("sleep", "1000", close_others: false, **KEPT.call) : [200, {}, [child.to_s]]
      when "/wait" then File.write("entered", Process.pid.to_s); File.read("barrier"); [200, {}, [Process.pid.to_s]]
      else [200, {}, [Process.pid.to_s]]
      end
    end)
    # What closes at exec is kept.
    KEPT = -> { Dir.children("/proc/self/fd").map(&:to_i).to_h { |number| [number, number] }.select { |number, _| number > 2 && File.exist?("/proc/self/fd/\#{number}") } }
  RUBY

  def child_that_holds_on(server)
    Integer(server.get("/fork").body).tap { |pid| (@children ||= []) << pid }
  end

  def test_a_dead_worker_is_noticed_though_a_child_holds_its_sockets
    server = serve(app("config.ru" => HOLDING), "-w", "1", "-t", "2")
    child = child_that_holds_on(server)
    first = server.workers.first
    eventually("the child to be another program") { server.title(child).include?("sleep") }
    Process.kill(:KILL, first)

    refute_equal first.to_s, server.get("/").body
    server.wait_for(/\.1 \(pid #{first}\) was killed by signal 9 \(KILL\); starting another$/)
    assert_includes server.title(child), "sleep"
  end

  def test_what_a_dead_worker_had_in_hand_is_asked_again_though_a_child_holds_its_sockets
    dir = app("config.ru" => HOLDING)
    gate, entered = barrier(dir), barrier(dir, "entered")
    server = serve(dir, "-w", "1", "-t", "2")
    child = child_that_holds_on(server)
    asking = Thread.new { server.get("/wait") }
    first = entered.wait
    Process.kill(:KILL, Integer(first))

    second = entered.wait
    gate.open
    assert_equal ["200", second], asking.value.then { |answer| [answer.code, answer.body] }
    refute_equal first, second
    assert_includes server.title(child), "sleep"
  end

  def test_a_worker_that_becomes_another_program_is_replaced
    server = serve(app("config.ru" => 'run ->(env) { env["PATH_INFO"] == "/exec" ? exec("sleep", "1000") : [200, {}, [Process.pid.to_s]] }'), "-w", "1", "-t", "1")
    first = server.get("/").body

    assert_equal "502", server.request(Net::HTTP::Post.new("/exec")).code
    refute_equal first, server.get("/").body
    eventually("the program to be killed") { server.title(first).empty? }
  end

  # As many visitors as there are threads and more; each notes whether an answer was his own.
  def visit(server)
    Array.new(CLIENTS) do |client|
      Thread.new do
        Net::HTTP.start("127.0.0.1", server.port, read_timeout: PATIENCE) do |http|
          Array.new(REQUESTS) { |n| http.get("/?#{client}-#{n}").then { |answer| [answer.code, answer.body == "user=#{client}-#{n}"] } }
        end
      end
    end.flat_map(&:value).tally
  end

  def test_each_visitor_gets_his_own_answers_after_a_bare_fork
    server = serve(app("config.ru" => <<~RUBY), "-w", "1", "-t", "3")
      run(lambda do |env|
        if env["PATH_INFO"] == "/job"
          exit if fork.nil?
          [200, {}, ["started"]]
        else
          [200, {}, ["user=", env["QUERY_STRING"]]]
        end
      end)
    RUBY
    worker = server.workers
    5.times { assert_equal "started", server.get("/job").body }

    assert_equal({ ["200", true] => CLIENTS * REQUESTS }, visit(server))
    assert_equal worker, server.workers
    eventually("the children to have ended") { server.descendants(worker.first).all? { |pid| server.title(pid).empty? } }
  end

  # A request that came by the mailbox is answered there: what lies on the socket besides is nobody's answer, and the worker is given up for it.
  def test_a_frame_from_nobody_on_the_socket_is_never_an_answer
    server = serve(app("config.ru" => <<~RUBY), "-w", "1", "-t", "1")
      F = Paceline::Server::Frames
      run(lambda do |env|
        channel = Thread.current[:paceline_channel]
        forged = F.response_head(channel.request - 1, 200, 0, F::Counters.new(0, 0, 0, 0, 0, ""), "", 6) + "forged"
        channel.io.write(forged) if env["PATH_INFO"] == "/earlier"
        [200, {}, [Process.pid.to_s]]
      end)
    RUBY
    first = server.get("/").body

    answers = [server.get("/earlier").body]
    eventually("another worker to answer") { (answers << server.get("/").body).last.match?(/\A\d+\z/) && answers.last != first }
    refute(answers.any? { |body| body.include?("forged") })
    server.wait_for(/its channel is broken: a frame for request \d+ in the answer to request \d+; replacing the worker$/)
  end

  # The lock behind the lock: what comes from nobody knows where is never shown to anybody.
  # Where all goes by the sockets; a child has no mailbox.
  def test_an_answer_with_a_wrong_number_is_a_502_and_its_worker_is_replaced
    server = serve(app("config.ru" => <<~RUBY), "-w", "1", "-t", "1", env: { "PACELINE_NATIVE" => "0" })
      F = Paceline::Server::Frames
      def forged(number) = F.response_head(number, 200, 0, F::Counters.new(0, 0, 0, 0, 0, ""), "", 6) + "forged"
      run(lambda do |env|
        channel = Thread.current[:paceline_channel]
        case env["PATH_INFO"]
        when "/earlier" then channel.io.write(forged(channel.request - 1))
        when "/behind" then env["rack.after_reply"] << -> { channel.io.write(F.answer(F::IDLE, channel.request), forged(channel.request)) }
        when "/torn" then next [200, {}, ->(stream) { stream.write("a" * 100_000); channel.io.write(F.chunk_head(channel.request - 1, 1), "b"); stream.write("c") }]
        end
        [200, {}, [Process.pid.to_s]]
      end)
    RUBY
    first = server.get("/").body

    assert_equal "502", server.get("/earlier").code
    server.wait_for(/its channel is broken: a frame for request \d+ in the answer to request \d+; replacing the worker$/)
    eventually("another worker") { (second = server.workers) && !second.empty? && second != [Integer(first)] }
    second = server.get("/").body
    refute_equal first, second

    assert_equal second, server.get("/behind").body
    assert_equal "502", server.get("/").code
    third = server.get("/").body
    refute_equal second, third

    torn = server.exchange("GET /torn HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    refute torn.match?(/b\r\n/) || torn.end_with?("0\r\n\r\n"), "a piece of another answer, or an end as if all were well"
    refute_equal third, server.get("/").body
  end
end
