# What the server does when something runs out: descriptors, disk, memory for bodies, or the patience of ten thousand clients.
require_relative "../support/scenario"
require_relative "../support/wire"
require_relative "../support/crowd"
require_relative "../support/certificates"
require_relative "../support/http2_client"

class PressureTest < Minitest::Test
  include Scenario

  KB = 1024
  HELLO = 'run ->(env) { [200, {}, ["hello"]] }'.freeze

  def test_when_descriptors_run_out_those_served_go_on_and_others_wait
    dir = app("config.ru" => 'run ->(env) { [200, {}, [env["rack.input"].read.bytesize.to_s]] }', "public/file.txt" => "file")
    server = serve(dir, within: %w[prlimit --nofile=128:128])
    connections = []
    served = []
    # One at a time: the answer says that there was a place.
    until connections.size == 200
      connections << server.connect
      connections.last.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
      break unless connections.last.wait_readable(connections.size > 60 ? 3 : PATIENCE)
      assert_equal 200, Wire.response(connections.last).status
      served << connections.last
    end
    assert_operator served.size, :>=, 50
    assert_operator served.size, :<, 100
    server.wait_for(/All \d+ connections are in use: new ones wait/)
    waiting = [connections.last] + Array.new(100) { server.connect.tap { |socket| socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n") } }
    connections.concat(waiting)

    before = server.processor_time
    sleep 1 # an interval to measure in
    assert_operator server.processor_time - before, :<, 0.3, "the front is busy although nobody can be accepted"
    assert_nil IO.select(waiting, nil, nil, 0)
    client = served.first
    client.write("GET /file.txt HTTP/1.1\r\nHost: x\r\n\r\n")
    assert_equal "file", Wire.response(client).body
    client.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + "x" * 200_000)
    assert_equal "200000", Wire.response(client).body
    # A worker can be replaced, which takes descriptors too.
    Process.kill(:KILL, server.workers.first)
    server.wait_for(/was killed by signal 9/)
    client.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert_equal 200, Wire.response(client).status

    # Each that leaves makes room for one.
    until waiting.empty?
      assert_equal 200, Timeout.timeout(PATIENCE) { served.shift.close; Wire.response(waiting.first) }.status
      served << waiting.shift
    end
  ensure
    connections&.each(&:close)
  end

  def test_a_full_disk_costs_the_request_and_not_the_server
    server, spool = serve_with_disk(2, "config.ru" => 'run ->(env) { [200, {}, [env["rack.input"].read.bytesize.to_s]] }')

    assert_equal "1000000", upload(server, 1_000_000).body
    answer = upload(server, 4_000_000, "Accept" => "text/html")
    assert_equal "507", answer.code
    assert_includes answer.body, "The server has no room for the body of this request."
    server.wait_for(/ 507 .*note="request body could not be spooled: No space left on device/)
    assert_equal "1000000", upload(server, 1_000_000).body
    assert_empty Dir.children(spool)
    assert_equal 0, server.stop.exitstatus
  end

  def test_a_response_that_finds_neither_memory_nor_disk_waits_for_its_client
    server, spool = serve_with_disk(1, "--response-memory", "64KB", "-t", "2", "config.ru" => <<~'RUBY')
      piece = ->(number) { number.to_s.rjust(8, "0") * 8192 }
      stream = Class.new { define_method(:each) { |&out| 256.times { |number| out.call(piece.(number)) } } }
      run ->(env) { env["PATH_INFO"] == "/stream" ? [200, {}, stream.new] : [200, {}, ["hello"]] }
    RUBY
    server.connect do |socket|
      socket.write("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
      eventually("the disk to be full") { `stat -f -c %a #{spool}`.to_i.zero? }
      assert_equal "hello", server.get("/").body
      assert_equal 1, server.state[:busy]

      body = Wire.response(socket).body

      assert_equal 256 * 64 * KB, body.bytesize
      assert_equal (0...256).map { |number| number.to_s.rjust(8, "0") }, body.scan(/.{65536}/m).map { |piece| piece[0, 8] }
    end
    eventually("the thread to be idle") { server.state[:busy].zero? }
  end

  def test_bodies_that_wait_take_no_more_memory_than_they_may
    dir = app("config.ru" => 'large = ["x" * 1_000_000] * 6; run ->(env) { [200, {}, env["PATH_INFO"] == "/large" ? large : ["hello"]] }')
    server = serve(dir, "--buffer-memory", "5MB")
    Crowd.around(server.port) do |crowd|
      assert_equal({ opened: 20, failed: 0 }, crowd.tell("readers 20 /large"))
      # The kernel takes some megabytes of each answer, a megabyte would stay in memory, and the rest goes to a file.
      eventually("the workers to be done") { server.state[:busy].zero? }
      state = server.state

      assert_operator state[:buffered], :>, 3 * KB * KB
      assert_operator state[:buffered], :<=, 5 * KB * KB
      assert_equal "hello", server.get("/").body
      server.connect do |socket|
        socket.write("GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        assert_equal 6_000_000, Wire.response(socket).body.count("x")
      end
      assert_equal 20, crowd.tell("held")[:readers]
    end
    eventually("the memory to be free") { server.state[:buffered].zero? }
  end

  # Nothing is said about time but what was measured: machines differ, and are shared.
  def test_a_crowd_of_slow_and_idle_clients_holds_no_worker
    hard = Process.getrlimit(:NOFILE).last
    idle = [10_000, hard - 2_000].min
    Process.setrlimit(:NOFILE, hard)
    dir = app("config.ru" => 'large = "x" * 500_000; run ->(env) { [200, {}, [env["PATH_INFO"] == "/large" ? large : "hello"]] }')
    server = serve(dir, "-w", "2", "-t", "3", "--buffer-memory", "32MB", "--keepalive-timeout", "10m", "--body-timeout", "5m", "-q")
    Crowd.around(server.port) do |crowd|
      crowd.tell("measure 25 1 / hello") # warm
      before = server.private_memory
      quiet = crowd.tell("measure 25 4 / hello")
      settled = server.private_memory
      assert_equal({ opened: idle, failed: 0 }, crowd.tell("idle #{idle} /", within: 100))
      eventually("all of them to rest") { server.state[:resting] == idle }
      each = (server.private_memory - settled) / idle
      assert_equal({ opened: 500, failed: 0 }, crowd.tell("readers 500 /large", within: 60))
      assert_equal({ opened: 500, failed: 0 }, crowd.tell("writers 500 /"))
      state = server.state
      crowded = crowd.tell("measure 25 4 / hello")

      assert_equal({ idle: idle, readers: 500, writers: 500 }, crowd.tell("held"))
      assert_operator each, :<=, 10 * KB
      assert_equal [0, 0, 6], state.values_at(:waiting, :busy, :idle)
      assert_operator state[:buffered], :<=, 32 * KB * KB
      assert_equal [0, 0], [quiet[:wrong], crowded[:wrong]]
      assert_operator crowded[:answers], :>, 25
      puts format("\n  %d idle connections: %d bytes of memory each; 25 clients beside them, 500 slow readers and 500 slow writers: " \
                  "p99 %d us (p50 %d, %d answers), quiet p99 %d us (p50 %d, %d answers); front before %d KB, buffered %d KB",
                  idle, each, crowded[:p99_us], crowded[:p50_us], crowded[:answers], quiet[:p99_us], quiet[:p50_us], quiet[:answers],
                  before / KB, state[:buffered] / KB)
    end
    eventually("all connections to be closed") { server.state[:places] <= 4 }
  end

  # What rustls and the HTTP/2 of hyper keep for a connection is theirs to say; the bounds only tell when it grows.
  def test_idle_connections_over_tls_and_http2
    count = 1_000
    Process.setrlimit(:NOFILE, Process.getrlimit(:NOFILE).last)
    dir = app("config.ru" => HELLO)
    authority = Authority.new
    cert, key = authority.write(dir, "shop", "shop.test")
    server = serve(dir, "-b", "tcp://127.0.0.1:0", "-b", "ssl://127.0.0.1:0?cert=#{cert}&key=#{key}", "-q")
    tls_port = server.wait_for(/Listening on https:\/\/\S+:(\d+)/)[1].to_i
    open = {
      "TLS" => lambda do
        authority.connect(tls_port, "shop.test").tap do |socket|
          socket.write("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
          assert_equal "hello", Wire.response(socket).body
        end
      end,
      "HTTP/2" => lambda do
        server.connect.tap do |socket|
          client = Http2Client.new(socket)
          assert_equal [200, "hello"], client.response(client.request)
        end
      end
    }
    connections = Array.new(50) { open.values.map(&:call) }.flatten # warm
    each = open.transform_values do |one|
      from = server.private_memory
      connections.concat(Array.new(count) { one.call })
      (server.private_memory - from) / count
    end
    eventually("those over TLS to rest") { server.state[:resting] == count + 50 }

    puts format("\n  %d idle connections: %s", count, each.map { |name, bytes| "over #{name} #{bytes} bytes of memory each" }.join(", "))
    each.each { |name, bytes| assert_operator bytes, :<=, 64 * KB, name }
  ensure
    connections&.each(&:close)
  end

  private

  # A server whose temporary files have a disk of so many megabytes; and where that is seen from here.
  def serve_with_disk(megabytes, *arguments, files)
    need_mounts
    dir = app(files)
    disk = app
    mount = %(mount -t tmpfs -o size=#{megabytes}m paceline-test "$0" && exec "$@")
    server = serve(dir, *arguments, env: { "TMPDIR" => disk }, within: ["unshare", "-m", "--propagation", "private", "sh", "-c", mount, disk])
    [server, "/proc/#{server.pid}/root#{disk}"]
  end

  def upload(server, bytes, headers = {})
    server.request(Net::HTTP::Post.new("/", headers).tap { |post| post.body = "x" * bytes })
  end
end
