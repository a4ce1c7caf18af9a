# Requests that are posted in the mailbox of a thread at work: short ones share a thread, and what turns out to be slow, to be left or to die takes none of
# the others with it. One event loop, so that all are posted to the same thread.
require_relative "../support/scenario"
require_relative "../support/wire"

class MailboxTest < Minitest::Test
  include Scenario

  # All on one path, so that the server expects the same of each.
  APP = <<~'RUBY'
    SEEN = Queue.new
    run lambda { |env|
      query = env["QUERY_STRING"]
      SEEN << query
      if query == "hold" then File.write("entered", Process.pid.to_s); File.read("barrier")
      elsif query == "stream" then next [200, {}, Enumerator.new { |out| out << "s"; File.write("entered", "x"); File.read("barrier") }]
      elsif query == "after" then (env["rack.after_reply"] || env["rack.response_finished"]) << ->(*) { File.write("entered", "x"); File.read("barrier") }
      elsif query == "echo"
        io = env["rack.hijack"].call
        io.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        Thread.new { io.write(io.gets.inspect); io.close }
        next [200, {}, []]
      elsif query == "seen" then next [200, {}, [Array.new(SEEN.size) { SEEN.pop }.join(" ")]]
      end
      [200, {}, ["#{query} #{Thread.current.name}"]]
    }
  RUBY

  def start(*arguments)
    @dir = app("config.ru" => APP)
    @gate, @entered = barrier(@dir), barrier(@dir, "entered")
    @server = serve(@dir, "--front-threads", "1", *arguments)
    # Until the server knows how short they are.
    60.times { assert_equal "200", @server.get("/?learn").code }
  end

  def hold
    held = send_request("hold")
    @entered.wait
    held
  end

  def send_request(query, method = "GET")
    socket = @server.connect
    socket.write("#{method} /?#{query} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
    socket
  end

  def seen = @server.get("/?seen").body.split - %w[learn seen]

  def body(socket) = Wire.response(socket).body

  def test_each_gets_its_own_answer
    start("-w", "2", "-t", "3")
    clients = Array.new(16) do |client|
      Thread.new do
        @server.connect do |socket|
          Array.new(100) do |nth|
            socket.write("GET /?#{client}-#{nth} HTTP/1.1\r\nHost: x\r\n\r\n")
            Wire.response(socket).body[/\S+/] == "#{client}-#{nth}"
          end
        end
      end
    end
    assert_equal [true], clients.flat_map(&:value).uniq
  end

  def test_those_behind_a_request_that_turns_out_slow_go_to_other_threads
    start("-w", "1", "-t", "2")
    held = hold
    others = Array.new(8) { |nth| send_request("other#{nth}") }
    assert_equal Array.new(8) { |nth| "other#{nth}" }, (others.map { |socket| body(socket)[/\S+/] })
    @gate.open
    assert_match(/\Ahold /, body(held))
  end

  # Its answer has begun, or is there whole: nothing tells how long it keeps its thread.
  %w[stream after].each do |query|
    define_method("test_those_behind_one_that_keeps_its_thread_after_its_answer_go_to_other_threads_#{query}") do
      start("-w", "1", "-t", "2")
      others = []
      slow = send_request(query)
      others << send_request("first")
      @entered.wait
      others.concat(Array.new(4) { |nth| send_request("other#{nth}") })
      assert_equal %w[first other0 other1 other2 other3], (others.map { |socket| body(socket)[/\S+/] })
      @gate.open
      assert_match(/\A(?:s|after )/, body(slow))
    end
  end

  def test_one_whose_client_leaves_while_it_waits_never_reaches_the_application
    start("-w", "1", "-t", "1")
    held = hold
    left = send_request("left")
    waits = send_request("waits")
    eventually("both to wait") { @server.state[:waiting] == 2 }
    left.close
    eventually("one to leave") { @server.state[:waiting] == 1 }
    @gate.open
    assert_equal %w[hold waits], ([held, waits].map { |socket| body(socket)[/\S+/] })
    assert_equal %w[hold waits], seen
  end

  # A worker that is killed had only one of them in hand, whatever was posted to it.
  # A thread may be at the next request before the front knows that it has answered one whose client leaves: what the front says about that one
  # must not be found in a connection that the application takes over.
  def test_clients_that_leave_are_heard_of_by_nobody_else
    start "-w", "1", "-t", "2"
    100.times do
      # So few that the connection after them waits for no others in the kernel's queue.
      leaving = Array.new(2) do
        Thread.new do
          20.times do
            socket = send_request("leaves")
            Thread.pass
            socket.close
          end
        end
      end
      socket = @server.connect
      socket.write("GET /?echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
      Wire.head(socket)
      socket.write("hello\n")
      assert_equal "hello\n".inspect, socket.read
      leaving.each(&:join)
    end
    refute_match(/broken/, @server.output)
  end

  def test_what_a_killed_worker_had_not_claimed_is_served_by_another
    start("-w", "1", "-t", "1")
    held = send_request("hold", "POST")
    worker = @entered.wait.to_i
    posted = Array.new(5) { |nth| send_request("post#{nth}", "POST") }
    eventually("all to wait") { @server.state[:waiting] == 5 }
    Process.kill(:KILL, worker)
    assert_equal 502, Wire.response(held).status
    assert_equal Array.new(5) { |nth| "post#{nth}" }, (posted.map { |socket| body(socket)[/\S+/] })
  end

  def test_what_a_draining_worker_had_not_claimed_is_served_by_another
    start("-w", "1", "-t", "1")
    held = hold
    posted = Array.new(3) { |nth| send_request("post#{nth}", "POST") }
    eventually("all to wait") { @server.state[:waiting] == 3 }
    @server.signal(:USR1)
    @server.wait_for(/ is ready.* is ready/m)
    assert_equal Array.new(3) { |nth| "post#{nth}" }, (posted.map { |socket| body(socket)[/\S+/] })
    @gate.open
    assert_match(/\Ahold /, body(held))
  end

  # Without the native part all goes by the sockets.
  def test_without_the_native_part_nothing_is_posted
    @dir = app("config.ru" => APP)
    server = serve(@dir, "-w", "1", "-t", "2", env: { "PACELINE_NATIVE" => "0" })
    assert_empty memories(server)
    assert_equal "200", server.get("/?x").code
    start("-w", "1", "-t", "2")
    refute_empty memories(@server)
  end

  private

  def memories(server) = File.readlines("/proc/#{server.workers.first}/maps").grep(/paceline-mailbox/)
end
