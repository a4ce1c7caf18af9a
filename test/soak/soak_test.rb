# Mixed traffic for SOAK_SECONDS while workers are killed and the application is restarted; afterwards nothing may be left:
# no descriptor, task, queued request, temporary file, process or memory. Every answer is checked. Run by bin/soak.
require_relative "../e2e/support/scenario"
require_relative "../e2e/support/web_socket"
require_relative "../e2e/support/wire"
require "digest"
require "securerandom"

class SoakTest < Minitest::Test
  include Scenario

  SECONDS = Integer(ENV.fetch("SOAK_SECONDS", "30"))
  WORKERS, THREADS = 2, 4
  PIECE = "0123456789abcdef" * 1024
  FILE = SecureRandom.bytes(300_000)
  # What the front's own memory may have grown by: what the allocator keeps, not what a leak adds up to.
  GROWTH = 6 << 20

  # What a visitor was given that it should not have been.
  class Wrong < StandardError; end

  def test_nothing_is_left_of_mixed_traffic
    @spool = app
    dir = app("config.ru" => File.read(File.join(__dir__, "app.ru")), "public/file.bin" => FILE)
    @server = serve(dir, "-w", WORKERS.to_s, "-t", THREADS.to_s, "-q", "--response-memory", "64KB", env: { "TMPDIR" => @spool })
    @faults = Queue.new
    @counts = Hash.new(0)
    @lock = Mutex.new
    @wrong = []

    traffic(SECONDS / 6.0)
    before = settled
    traffic(SECONDS)
    after = settled

    puts "", format_counts, "  before #{before}", "  after  #{after}"
    assert_empty @wrong
    assert_operator @counts.values.min, :>, 0, @counts.inspect
    bounded = %i[memory worker_memory tasks]
    assert_equal before.except(*bounded), after.except(*bounded)
    # Some of a restart take longer than the rest; one that leaks never ends.
    eventually("tasks to be as few as before", within: 60) { @server.state[:tasks] <= before[:tasks] }
    assert_operator after[:memory], :<=, before[:memory] + GROWTH
    pids = @server.descendants
    assert_equal 0, @server.stop.exitstatus
    eventually("all processes to be gone") { pids.none? { |pid| File.exist?("/proc/#{pid}") } && ours.empty? }
    assert_empty Dir.children(@spool)
  end

  private

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # All visitors at once, with faults, for so many seconds.
  def traffic(seconds)
    limit = now + seconds
    @fault_times = []
    killing = Thread.new { harm(limit) }
    visitors = %i[page page file upload download events socket abandon].map { |kind| Thread.new { visit(kind, limit) } }
    [killing, *visitors].each(&:join)
  end

  # Kills a worker every few seconds, and restarts the application now and then.
  def harm(limit)
    nth = 0
    while now < limit - 1
      sleep [2 + rand(3.0), limit - 1 - now].min.clamp(0, 5)
      break if now >= limit - 1
      @lock.synchronize { @fault_times << now }
      if (nth += 1) % 4 == 0
        count(:restart)
        @server.signal(:USR1)
      elsif (victim = @server.workers.sample)
        count(:kill)
        Process.kill(:KILL, victim)
      end
      @lock.synchronize { @fault_times << now }
    end
  rescue Errno::ESRCH
    retry
  end

  def count(what) = @lock.synchronize { @counts[what] += 1 }

  # What goes wrong while a worker is killed or replaced may be its fault (a POST is not asked twice, a stream breaks off).
  def visit(kind, limit)
    while now < limit
      begun = now
      begin
        Timeout.timeout(PATIENCE) { send(kind) }
        count(kind)
      rescue StandardError => e
        # A generation that is replaced lives on until its last stream has ended.
        excused = !%i[page file].include?(kind) && @lock.synchronize { @fault_times.any? { |time| time > begun - 2 } }
        excused ||= e.message.include?("502") && @lock.synchronize { @fault_times.any? { |time| time > begun - 2 } }
        excused ? count(:cut_off) : @lock.synchronize { @wrong << "#{kind}: #{e.class}: #{e.message[0, 300]} (#{e.backtrace.first})" }
      end
    end
  end

  def expect(expected, got, what)
    raise Wrong, "#{what}: #{got.inspect[0, 100]}" unless expected == got
  end

  def ask(request)
    answer = @server.request(request)
    raise Wrong, "status #{answer.code}" unless answer.code == "200"
    answer
  end

  def page
    Net::HTTP.start("127.0.0.1", @server.port, read_timeout: PATIENCE) do |http|
      20.times do
        number = rand(1 << 30).to_s
        answer = http.request(Net::HTTP::Get.new("/page?#{number}"))
        raise Wrong, "status #{answer.code}" unless answer.code == "200"
        expect("hello #{number}", answer.body, "page")
      end
    end
  end

  def file = expect(FILE, ask(Net::HTTP::Get.new("/file.bin")).body.b, "file")

  def upload
    body = SecureRandom.bytes(rand(60_000..400_000))
    answer = ask(Net::HTTP::Post.new("/upload").tap { |post| post.body = body })
    expect(Digest::SHA256.hexdigest(body), answer.body, "upload")
  end

  def download
    count = rand(1..200)
    body = ask(Net::HTTP::Get.new("/download?#{count}")).body
    expect([count * PIECE.bytesize, Digest::SHA256.hexdigest(PIECE * count)], [body.bytesize, Digest::SHA256.hexdigest(body)], "download")
  end

  # Listens for a while, and leaves.
  def events
    @server.connect do |socket|
      socket.write("GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
      Wire.head(socket)
      rand(1..10).times { |number| expect("data: #{number}\n\n", Wire.chunk(socket), "event") }
    end
  end

  def socket
    WebSocket.open("ws://127.0.0.1:#{@server.port}/socket") do |socket|
      rand(1..10).times do
        text = SecureRandom.hex(rand(1..50))
        socket.write(text)
        expect(text, socket.read, "message")
      end
    end
  end

  # Leaves in the middle of everything, now politely and now with a reset.
  def abandon
    socket = @server.connect
    socket.setsockopt(Socket::SOL_SOCKET, Socket::SO_LINGER, [1, 0].pack("ii")) if rand(2).zero?
    case rand(4)
    when 0 then socket.write("GET /page HTTP/1.1\r\nHo")
    when 1 then socket.write("POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + "x" * 100_000)
    when 2 then socket.write("GET /download?500 HTTP/1.1\r\nHost: x\r\n\r\n").then { socket.readpartial(10_000) }
    else socket.write("GET /page HTTP/1.1\r\nHost: x\r\n\r\n")
    end
  ensure
    socket&.close
  end

  # What is held when nobody asks for anything, once that no longer changes.
  def settled
    eventually("everything to be idle", within: 90) do
      state = @server.state
      state.values_at(:waiting, :busy, :idle, :buffered) == [0, 0, WORKERS * THREADS, 0] && state[:places] <= Etc.nprocessors &&
        @server.workers.size == WORKERS && @server.preloaders.size == 1
    end
    eventually("temporary files to be gone") { Dir.empty?(@spool) }
    state = nil
    # Tasks and descriptors of the last generation end a moment after it: two seconds are for its preloader to end by itself.
    eventually("descriptors and tasks to settle", within: 60) do
      last, state = state, @server.state
      last == state && sleep(2.5) && @server.state == state
    end
    zombies = @server.descendants.select { |pid| File.read("/proc/#{pid}/stat").include?(") Z ") rescue false }
    {
      # Each loop that accepts holds a place ahead, and the listener once more; how many do is a matter of the load before.
      **state.except(:places), descriptors: state[:descriptors] - state[:places], zombies: zombies.size, processes: @server.descendants.size, ours: ours.size,
      worker_descriptors: @server.workers.map { |pid| Dir.children("/proc/#{pid}/fd").size }.sort,
      preloader_descriptors: @server.preloaders.map { |pid| Dir.children("/proc/#{pid}/fd").size },
      memory: @server.private_memory, worker_memory: @server.workers.sum { |pid| @server.private_memory(pid) } / WORKERS
    }
  end

  # Every process on this machine that says it belongs to this site, orphans among them.
  def ours
    name = File.basename(@server.dir)
    Dir["/proc/[0-9]*/cmdline"].select { |path| File.read(path).match?(/paceline (?:worker \d+|preloader) \[#{name}\]/) rescue false }
  end

  def format_counts
    "  #{SECONDS} s: #{@counts.sort.map { |what, number| "#{what} #{number}" }.join(", ")}"
  end
end
