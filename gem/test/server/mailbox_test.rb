# frozen_string_literal: true

# What a worker thread does with its mailbox, seen from the front: the scenario posts requests and reads answers where the front would.
require "helper"
require "tmpdir"

class MailboxTest < Paceline::Test
  APP = <<~RUBY
    class Closing < Array
      def close = nil
    end
    class ClosingLate < Array
      def close = File.read("late")
    end
    run lambda { |env|
      case env["PATH_INFO"]
      when "/gate" then File.read("gate"); [200, {}, ["gate"]]
      when "/stream" then [200, {}, Enumerator.new { |out| 3.times { out << "x" * 70_000 } }]
      when "/large" then [200, {}, ["y" * 100_000]]
      when "/large-and-more" then (env["rack.after_reply"] = [-> {}]); [200, {}, ["y" * 100_000]]
      when "/hijack" then (io = env["rack.hijack"].call).write(io.readpartial(100)); io.close; [200, {}, []]
      when "/raw" then [200, { "rack.hijack" => ->(io) { io.write(io.readpartial(100)); io.close } }, []]
      when "/closing-late" then [200, {}, ClosingLate["closing"]]
      when "/closing" then [200, {}, Closing["closing"]]
      when "/raise" then raise "no"
      when "/child" then (exit! if fork.nil?); [200, {}, ["parent"]]
      when "/stray" then fork.nil? ? [200, {}, ["child"]] : (Process.wait; [200, {}, ["parent"]])
      when "/cancelled" then [200, {}, Enumerator.new { |out| 3.times { out << "x" * 70_000 } }]
      else [200, {}, [env["PATH_INFO"]]]
      end
    }
  RUBY

  def setup
    require "paceline/native"
    skip "the native part has the mailbox" unless Paceline::Native
    @dir = Dir.mktmpdir("paceline-mailbox-")
    File.write("#{@dir}/config.ru", APP)
    %w[gate late].each { |name| File.mkfifo("#{@dir}/#{name}") }
    @front = FakeFront.new(root: @dir)
    @front.await_start
    @worker = @front.fork_worker
    @worker.await(F::READY)
    @channel = @worker.channels[1]
    @mailbox = @worker.mailboxes[1]
    @number = 100
  end

  def teardown
    @front&.stop
    FileUtils.rm_rf(@dir) if @dir
  end

  def test_a_thread_that_sleeps_says_so_and_is_woken_for_a_request
    wait_for_sleep
    first = post("/one")
    wake
    assert_equal [first, "/one"], answer
    wait_for_sleep
  end

  def test_requests_that_lie_there_are_answered_in_order_without_being_woken_again
    wait_for_sleep
    numbers = Array.new(5) { |nth| [post("/#{nth}"), "/#{nth}"] }
    wake
    assert_equal numbers, Array.new(5) { answer }
  end

  def test_the_front_is_told_on_the_socket_only_if_it_waits
    wait_for_sleep
    @mailbox.front_waits = 1
    post("/one")
    wake
    assert_equal F::NOTICE, @channel.read.type
    assert_equal 0, @mailbox.front_waits
    answer
    wait_for_sleep
    post("/two")
    wake
    assert_equal "/two", answer.last
    wait_for_sleep
    assert_nil IO.select([@channel.io], nil, nil, 0)
  end

  def test_what_was_taken_back_is_not_served
    wait_for_sleep
    kept = post("/kept")
    at = nil
    post("/revoked") { |place| at = place }
    last = post("/last")
    @mailbox.revoke(at)
    wake
    assert_equal [[kept, "/kept"], [last, "/last"]], [answer, answer]
    wait_for_sleep
    assert_nil @mailbox.take
  end

  def test_a_request_is_claimed_before_the_application_sees_it
    wait_for_sleep
    at = nil
    gate = post("/gate") { |place| at = place }
    behind = nil
    post("/behind") { |place| behind = place }
    assert_equal [FakeMailbox::QUEUED] * 2, [@mailbox.state(at), @mailbox.state(behind)]
    wake
    File.open("#{@dir}/gate", "w") do |open|
      assert_equal [FakeMailbox::CLAIMED, FakeMailbox::QUEUED], [@mailbox.state(at), @mailbox.state(behind)]
      open.write("x")
    end
    assert_equal [gate, "gate"], answer
    assert_equal "/behind", answer.last
  end

  def test_what_is_too_large_or_streams_goes_by_the_socket_whole
    wait_for_sleep
    %w[/stream /large].each { |path| post(path) }
    after = post("/after")
    wake
    stream = read_answer(after - 2)
    assert_equal [200, 210_000], [stream.status, stream.body.bytesize]
    large = read_answer(after - 1)
    assert_equal [200, 100_000], [large.status, large.body.bytesize]
    assert_equal [after, "/after"], answer
  end

  def test_what_follows_an_answer_comes_where_the_answer_came
    wait_for_sleep
    closing = post("/closing")
    after = post("/after")
    wake
    assert_equal [closing, "closing"], answer
    frame = next_frame
    assert_equal [F::IDLE, closing], frame.unpack("x4CQ>")
    assert_equal [after, "/after"], answer
  end

  def test_the_front_is_not_told_that_the_thread_is_idle_when_it_is_not
    wait_for_sleep
    @mailbox.front_waits = 1
    late = post("/closing-late")
    gate = post("/gate")
    wake
    assert_equal F::NOTICE, @channel.read.type
    assert_equal [late, "closing"], answer
    @mailbox.front_waits = 1
    File.write("#{@dir}/late", "x")
    File.open("#{@dir}/gate", "w") do |open|
      assert_equal [F::IDLE, late], next_frame.unpack("x4CQ>")
      assert_equal 1, @mailbox.front_waits
      open.write("x")
    end
    assert_equal F::NOTICE, @channel.read.type
    assert_equal [gate, "gate"], answer
  end

  def test_what_follows_an_answer_that_is_too_large_comes_by_the_socket_too
    wait_for_sleep
    large = post("/large-and-more")
    after = post("/after")
    wake
    assert_equal [after, "/after"], answer
    assert_equal 100_000, read_answer(large).body.bytesize # and its IDLE
  end

  def test_an_exception_is_an_answer_like_any_other
    wait_for_sleep
    number = post("/raise")
    after = post("/after")
    wake
    assert_equal [F::ERROR, number], next_frame.unpack("x4CQ>")
    assert_equal [after, "/after"], answer
  end

  def test_rings_that_are_gone_round_many_times
    wait_for_sleep
    until @mailbox.requests_written > 5 * FakeMailbox::REQUESTS && @mailbox.answers_written > 3 * FakeMailbox::ANSWERS
      sent = Array.new(10) { |nth| "/#{@number}-#{"x" * (nth * 601 % 2003)}" }.map { |path| [post(path), path] }
      wake
      assert_equal sent, Array.new(10) { answer }
      wait_for_sleep
    end
  end

  # Its copy of the answer is nowhere: neither in the memory, which it does not have, nor on the socket.
  def test_a_child_that_the_application_forks_leaves_nothing
    wait_for_sleep
    numbers = %w[/child /stray /stray].map { |path| post(path) }
    wake
    assert_equal numbers.map { |number| [number, "parent"] }, Array.new(3) { answer }
    wait_for_sleep
    assert_nil @mailbox.take
    assert_nil IO.select([@channel.io], nil, nil, 0)
  end

  def test_a_cancel_that_means_an_earlier_request_hurts_nobody
    wait_for_sleep
    @channel.io.write(F.frame(F::CANCEL, [@number].pack("Q>")))
    post("/one") # number @number + 1
    number = post("/cancelled")
    wake
    assert_equal "/one", answer.last
    assert_equal 210_000, read_answer(number).body.bytesize
  end

  # The front sends a request to a thread that sleeps, instead of waking it for one in the mailbox.
  def test_a_request_that_wakes_the_thread_goes_before_those_that_were_posted_after_it
    10.times do |round|
      wait_for_sleep
      @mailbox.sleeps = 0
      sent = @number += 1
      request = F.frame(F::REQUEST, FakeFront.request({ "PATH_INFO" => "/sent" }, number: sent))
      # What came too late for an earlier one may lie before it.
      early = round.odd? ? F.frame(F::CANCEL, [sent - 1].pack("Q>")) : ""
      posted = post("/posted")
      @channel.io.write(early + request)
      assert_equal "/sent", read_answer(sent).body
      assert_equal [posted, "/posted"], answer
    end
    wait_for_sleep
  end

  # It found the mailbox full: the front does not wait for the thread to say that it sleeps, and may have been faster.
  def test_a_thread_at_work_does_not_say_that_it_sleeps_however_it_was_woken
    wait_for_sleep
    @channel.io.write(F.frame(F::REQUEST, FakeFront.request({ "PATH_INFO" => "/gate" }, number: @number += 1)))
    File.open("#{@dir}/gate", "w") do |open|
      assert_equal 0, @mailbox.sleeps
      open.write("x")
    end
    assert_equal "gate", read_answer(@number).body
    wait_for_sleep
  end

  def test_what_was_sent_for_earlier_requests_is_not_for_who_takes_the_socket
    %w[/hijack /raw].each do |path|
      wait_for_sleep
      @mailbox.sleeps = 0
      @channel.io.write(F.frame(F::REQUEST, FakeFront.request({ "PATH_INFO" => "/gate" }, number: @number += 1)))
      File.open("#{@dir}/gate", "w") do |open|
        @channel.io.write(F.frame(F::CANCEL, [@number].pack("Q>")))
        post(path)
        open.write("x")
      end
      assert_equal "gate", read_answer(@number - 1).body
      assert_includes [F::HIJACK, F::HEAD], @channel.read.type
      @channel.io.write("hello")
      assert_equal "hello", @channel.io.read
      @worker.await(F::CHANNEL)
      @channel = @worker.channels[1]
      @mailbox = @worker.mailboxes[1]
    end
  end

  # Threads that have given their sockets away at the same time open new channels at the same time. (The pause gives another thread's frames
  # the time to come between, if they can.)
  def test_each_mailbox_comes_right_before_its_channel
    File.write("#{@dir}/config.ru", "#{<<~RUBY}#{APP}")
      Paceline::Native::Mailbox.prepend(Module.new { def sent = super.tap { Kernel.sleep 0.02 } })
    RUBY
    front = FakeFront.new(root: @dir)
    front.await_start
    worker = front.fork_worker(threads: 4)
    worker.await(F::READY)
    worker.channels.each_value { |channel| channel.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => "/hijack" })) }
    worker.channels.each_value { |channel| assert_equal F::HIJACK, channel.read.type }
    worker.channels.each_value { |channel| channel.io.write("hello") }
    frames = Array.new(8) { worker.control.read }
    assert_equal [F::MAILBOX, F::CHANNEL] * 4, frames.map(&:type)
    frames.each_slice(2) { |mailbox, channel| assert_equal mailbox.fields, channel.fields }
  ensure
    frames&.each { |frame| frame.fd&.close }
    front&.stop
  end

  private

  def post(path)
    frame = F.frame(F::REQUEST, FakeFront.request({ "PATH_INFO" => path }, number: @number += 1))
    at = @mailbox.post(@number, frame)
    yield at if block_given?
    @number
  end

  def wake
    @mailbox.sleeps = 0
    @channel.send(F::WAKE)
  end

  def wait_for_sleep
    eventually { @mailbox.sleeps == 1 && @mailbox.requests_taken == @mailbox.requests_written }
  end

  def next_frame
    frame = nil
    eventually { frame ||= @mailbox.take }
    frame
  end

  # Number and body of the next answer in the mailbox.
  def answer
    frame = next_frame
    type, number = frame.unpack("x4CQ>")
    assert_equal F::RESPONSE, type
    spans, = frame.byteslice(44, 2).unpack("n")
    headers = frame.byteslice(46 + spans, 4).unpack1("N")
    [number, frame.byteslice((50 + spans + headers)..)]
  end

  def read_answer(number)
    @channel.instance_variable_set(:@number, number)
    FakeFront.answer(@channel)
  end

  def eventually
    Timeout.timeout(FakeFront::LIMIT) { sleep 0.001 until yield }
  end
end
