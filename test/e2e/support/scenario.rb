# What every end-to-end scenario stands on: a scripted application, a real server on a port of its own, raw clients, barriers.
# It asserts nothing itself and never sleeps to wait for something: it waits for what the server prints, or on barriers.
require "minitest/autorun"
require "etc"
require "fileutils"
require "net/http"
require "socket"
require "timeout"
require "tmpdir"
require_relative "../../../gem/test/support/hang_watch"
require_relative "wire"

module Scenario
  CHECKOUT = File.expand_path("../../..", __dir__)
  BIN = ENV.fetch("PACELINE_BIN") { File.join(CHECKOUT, "target/release/paceline") }
  # Nothing that is waited for takes this long, on the slowest machine.
  PATIENCE = Integer(ENV.fetch("PACELINE_TEST_PATIENCE", "30"))

  # The scripted applications are root's where the tests run as root; without a word the server would refuse them.
  AS_ROOT = Process.uid.zero? ? { "PACELINE_USER" => "root" }.freeze : {}.freeze

  # Minitest 6 wants assert_nil where nil is expected, also where that is computed.
  def assert_equal(expected, actual, message = nil) = expected.nil? ? assert_nil(actual, message) : super

  # A folder with the given files ("config.ru" => "run ..."), removed after the test.
  def app(files = {})
    dir = File.realpath(Dir.mktmpdir("paceline-test-"))
    (@folders ||= []) << dir
    write(dir, files)
    dir
  end

  def write(dir, files)
    files.each do |name, content|
      path = File.join(dir, name)
      FileUtils.mkdir_p(File.dirname(path))
      File.binwrite(path, content)
    end
  end

  # Starts `paceline ARGUMENTS` in `dir` on a free port; returns when it listens, and with `ready: true` when the app is up.
  # `within`: a command that the server is run by, as `prlimit --nofile=100`, and which it takes the place of.
  # `handed`: listening sockets that it is given as a service manager would.
  # `hurried`: it ends as in development; otherwise what is in hand has as long as in production, as slow machines need it.
  def serve(dir, *arguments, env: {}, ready: true, port: true, within: [], handed: [], hurried: false)
    arguments = ["--shutdown-timeout", "30s", *arguments] if port && !hurried && !arguments.include?("--shutdown-timeout")
    if handed.any?
      env = env.merge("LISTEN_FDS" => handed.size.to_s)
      within = [*within, "sh", "-c", 'LISTEN_PID=$$ exec "$0" "$@"']
    end
    server = Server.new(dir, arguments, env, port, within, handed)
    (@servers ||= []) << server
    server.wait_for(/Listening on http:\/\/\S+:(\d+)/) { |match| server.port = Integer(match[1]) } if port
    server.wait_for(/ is ready: /) if ready
    server
  end

  # One request to @server on a connection of its own, and its response as it is on the wire. `fields`: "Name: value".
  def ask(path, *fields, method: "GET", version: "1.1")
    @server.connect do |socket|
      socket.write(Wire.request(path, *fields, method: method, version: version))
      Wire.response(socket, to: method)
    end
  end

  # A request whose response the test reads when it wants to: the connection, which is closed after the test.
  def open_request(path, *fields, method: "GET", version: "1.1")
    socket = @server.connect
    (@sockets ||= []) << socket
    socket.write(Wire.request(path, *fields, method: method, version: version))
    socket
  end

  # Requests on connections of their own that all wait for a thread, each in the queue before the next is sent: the front
  # may read two connections in either order.
  def queue_requests(*paths, fields: [])
    before = @server.state[:waiting]
    paths.map.with_index(1) do |path, nth|
      open_request(path, *fields).tap { eventually("#{path} to wait") { @server.state[:waiting] == before + nth } }
    end
  end

  # For tests that give a server mounts of its own.
  def need_mounts
    skip "needs mounts of its own: only root has them, and only where / is a mount point" unless system("unshare", "-m", "true", err: File::NULL)
  end

  # A point where the app waits for the test: the app calls `File.read(PATH)` on this FIFO, and the test calls `open`.
  def barrier(dir, name = "barrier")
    Barrier.new(File.join(dir, name))
  end

  def teardown
    super
    Array(@sockets).each(&:close)
    Array(@servers).each(&:kill)
    Array(@folders).each { |dir| FileUtils.rm_rf(dir) }
    unless passed? || skipped?
      Array(@servers).each { |server| warn "--- what the server printed (#{name})\n#{shown(server.output)}\n---" }
    end
    Array(@servers).each(&:forget)
  end

  # Of what a server printed, what a test that fails shows.
  def shown(output) = output

  # Repeats the block until it is true; for things that have no event to wait for (a process that goes away).
  def eventually(what = "the condition", within: PATIENCE)
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + within
    until (result = yield)
      flunk("waited #{within} s for #{what}") if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
      sleep 0.01
    end
    result
  end

  # What a thread of the test puts there.
  def take(queue) = Timeout.timeout(PATIENCE) { queue.pop }

  # A running server.
  class Server
    attr_reader :pid, :dir
    attr_accessor :port

    def initialize(dir, arguments, env, port, within = [], handed = [])
      @dir = dir
      @log = Tempfile.create("paceline-output")
      arguments = ["-b", "tcp://127.0.0.1:0", *arguments] if port && arguments.none? { |argument| %w[-b -p].include?(argument) }
      clean = %w[RACK_ENV RAILS_ENV APP_ENV WEB_CONCURRENCY RAILS_MAX_THREADS PORT BUNDLE_GEMFILE RUBYOPT].to_h { |name| [name, nil] }
      # Scenarios write files while their server runs, and say themselves what is to be restarted.
      clean["PACELINE_LIVE_RELOAD"] = "false"
      env = clean.merge("PACELINE_GEM_DIR" => File.join(CHECKOUT, "gem")).merge(AS_ROOT).merge(env)
      @pid = Process.spawn(env, *within, BIN, *arguments, chdir: dir, out: @log, err: @log, in: File::NULL,
        **handed.each_with_index.to_h { |socket, nth| [3 + nth, socket] })
    end

    def output = File.read(@log.path, encoding: "UTF-8")

    # Waits until the output matches; yields and returns the match.
    def wait_for(pattern, within: PATIENCE, from: 0)
      limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + within
      loop do
        over = ended?
        if (match = output[from..].to_s.match(pattern))
          yield match if block_given?
          return match
        end
        raise Minitest::Assertion, "the server ended (#{@status}) and never printed #{pattern.inspect}:\n#{output}" if over
        raise Minitest::Assertion, "waited #{within} s for #{pattern.inspect} in:\n#{output}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
        sleep 0.01
      end
    end

    def get(path, headers = {}) = request(Net::HTTP::Get.new(path, headers))

    def request(request)
      Net::HTTP.start("127.0.0.1", port, read_timeout: PATIENCE) { |http| http.request(request) }
    end

    # What the front holds at this moment: its own counts, and those of its only application.
    def state
      from = output.size
      signal(:PWR)
      pairs = wait_for(/State: (.*)\n(?:.*\n)*?\* State of .*: (waiting=.*)/, from: from)
      pairs.captures.join(" ").scan(/(\w+)=(\d+)/).to_h { |name, number| [name.to_sym, number.to_i] }
    end

    # Bytes of the process's own memory.
    def private_memory(of = pid)
      File.read("/proc/#{of}/smaps_rollup").scan(/^Private_(?:Dirty|Hugetlb): +(\d+) kB/).sum { |(kb)| kb.to_i } * 1024
    end

    # Seconds of processor time that the front has used.
    def processor_time
      fields = File.read("/proc/#{pid}/stat").rpartition(") ").last.split
      (fields[11].to_i + fields[12].to_i) / Float(Etc.sysconf(Etc::SC_CLK_TCK))
    end

    # A raw connection; closed by its block or by the caller.
    def connect
      socket = TCPSocket.new("127.0.0.1", port)
      socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
      return socket unless block_given?
      begin
        Timeout.timeout(PATIENCE) { yield socket }
      ensure
        socket.close
      end
    end

    # Sends bytes, reads one response.
    def wire(bytes, to: "GET")
      connect do |socket|
        socket.write(bytes)
        Wire.response(socket, to: to)
      end
    end

    # Sends bytes, reads until the server closes.
    def exchange(bytes)
      connect do |socket|
        socket.write(bytes)
        socket.read
      end
    end

    def signal(name) = Process.kill(name, pid)

    # TERM, and the exit status.
    def stop
      signal(:TERM)
      wait
    end

    def wait
      Timeout.timeout(PATIENCE) { Process.wait(pid) } unless @status
      @status ||= $?
    end

    def ended?
      return true if @status
      Process.wait(pid, Process::WNOHANG) && (@status = $?)
      !!@status
    end

    def kill
      return if ended?
      Process.kill(:KILL, pid)
      wait
    end

    # Removes what it printed.
    def forget = File.delete(@log.path)

    # Pids of the server's Ruby processes: preloaders and workers, by their parents.
    def descendants(of = pid)
      children = Dir["/proc/#{of}/task/*/children"].flat_map { |path| File.read(path).split.map(&:to_i) rescue [] }
      children + children.flat_map { |child| descendants(child) }
    end

    def preloaders = descendants.select { |pid| title(pid).include?("preloader") }

    def workers = descendants.select { |pid| title(pid).include?("worker") }

    def title(pid)
      File.read("/proc/#{pid}/cmdline").tr("\0", " ")
    rescue SystemCallError
      ""
    end
  end

  # A FIFO that the app reads from and the test opens.
  class Barrier
    attr_reader :path

    def initialize(path)
      @path = path
      File.mkfifo(path)
    end

    # Lets one reader pass; waits until it is there.
    def open = Timeout.timeout(PATIENCE) { File.write(@path, "go") }

    # Waits until the app writes (`File.write(PATH, ...)`), and returns what.
    def wait = Timeout.timeout(PATIENCE) { File.read(@path) }
  end
end
