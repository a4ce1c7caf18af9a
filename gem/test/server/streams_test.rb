# frozen_string_literal: true

require "helper"

# What a worker does for streams: it marks their heads, starts a thread when it is told to, and has no thread for anybody while the app keeps it.
class StreamsTest < Paceline::Test
  RU = <<~'RUBY'
    ROUTES = {
      "/number" => -> { [200, {}, [Thread.current.name]] },
      "/each" => -> { [200, {}, Enumerator.new { |out| out << "x" * 100_000 }] },
      "/events" => -> { [200, { "content-type" => "text/event-stream" }, Enumerator.new { |out| out << "data: 1\n\n" }] },
      "/unbuffered" => -> { [200, { "x-accel-buffering" => "no" }, Enumerator.new { |out| out << "1" }] },
      "/callable" => -> { [200, {}, ->(stream) { stream << "x" * 100_000 }] },
      "/short" => -> { [200, {}, ->(stream) { stream << "short" }] }
    }
    run(lambda do |env|
      next ROUTES.fetch(env["PATH_INFO"]).call unless env["PATH_INFO"] == "/hijack"
      io = env["rack.hijack"].call
      io.write("taken")
      File.read("gate")
      io.write(" and kept")
      io.close
      [200, {}, []]
    end)
  RUBY

  def started(threads: 1)
    with_front({ "config.ru" => RU }) do |front, dir|
      frame = front.await_start
      assert_equal F::LOADED, frame.type, frame.payload
      worker = front.fork_worker(threads: threads)
      worker.await(F::READY)
      yield worker, dir
    end
  end

  def get(channel, path)
    channel.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => path }))
    FakeFront.answer(channel)
  end

  # The flags of the HEAD; nil if the answer came at once.
  def head_flags(channel, path)
    channel.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => path }))
    head = channel.read
    return if head.type == F::RESPONSE
    assert_equal F::HEAD, head.type
    channel.await(F::END_)
    head.payload.unpack("nC")[1]
  end

  def test_the_heads_of_streams_say_so
    started do |worker|
      channel = worker.channels[1]
      assert_equal({ "/each" => 0, "/events" => F::STREAM, "/unbuffered" => F::STREAM, "/callable" => F::STREAM, "/short" => nil },
                   %w[/each /events /unbuffered /callable /short].to_h { |path| [path, head_flags(channel, path)] })
    end
  end

  def test_a_spare_thread_comes_when_it_is_asked_for_and_ends_with_its_channel
    started(threads: 2) do |worker|
      worker.control.send(F::SPARE)
      assert_equal ["3"], worker.await(F::CHANNEL).fields
      assert_equal "paceline 3", get(worker.channels[3], "/number").body
      worker.channels[2].close
      # A number whose thread has ended is given again; as long as it has not, the next one is.
      wait_until { thread_count(worker) == 2 }
      worker.control.send(F::SPARE)
      assert_equal ["2"], worker.await(F::CHANNEL).fields
      assert_equal "paceline 2", get(worker.channels[2], "/number").body
    end
  end

  def test_the_thread_of_a_hijack_opens_a_channel_when_the_app_has_returned
    started do |worker, dir|
      gate = File.join(dir, "gate").tap { |path| File.mkfifo(path) }
      given = worker.channels[1]
      given.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => "/hijack" }))
      assert_equal [F::HIJACK], FakeFront.answer(given).types
      assert_equal "taken", given.io.readpartial(100)
      # What comes next on the control socket answers this, and is no CHANNEL: the thread is still in the app.
      worker.control.send(F::ASK_MEMORY)
      assert_equal F::MEMORY, worker.control.read.type
      File.write(gate, "go")
      worker.await(F::CHANNEL)
      assert_equal " and kept", given.io.read
      assert_equal "paceline 1", get(worker.channels[1], "/number").body
    end
  end

  private

  def thread_count(worker)
    Dir["/proc/#{worker.pid}/task/*/comm"].count { |path| File.read(path).match?(/\Apaceline \d+$/) rescue false }
  end

  def wait_until
    Timeout.timeout(FakeFront::LIMIT) { sleep 0.01 until yield }
  end
end
