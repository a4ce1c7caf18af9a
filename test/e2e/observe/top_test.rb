# `paceline top`: the running server every second, as a picture on a terminal and as lines elsewhere.
require "io/console"
require "pty"
require_relative "../support/scenario"
require_relative "../support/asking"

class TopTest < Minitest::Test
  include Scenario
  include Asking

  APP = 'run ->(env) { [200, env["PATH_INFO"] == "/kept" ? { "cache-control" => "max-age=60" } : {}, ["hello"]] }'.freeze

  def start
    @server = serve(app("config.ru" => APP), "-w", "2", "-t", "3")
    %w[/kept /kept /orders/1 /orders/2].each { |path| @server.get(path) }
    eventually("the requests to be counted") { command_json(@server, "status", "--json")["sites"].values.first["counts"]["requests"] == 4 }
  end

  def site = File.basename(@server.dir)

  LINE = %r{ready, [\d.]+ requests/s, median .+ ms, p95 .+, p99 .+, 0 waiting, 0 of 6 threads busy, 2 workers with [\d.]+ MB, 25\.0 % from the cache, slowest GET /(?:kept|orders/\*) .+s$}

  def test_once_a_line_for_each_site
    start
    out, status = command(@server, "top", "--once")
    assert_equal 0, status
    assert_match(/\A#{Regexp.escape(site)}: #{LINE}\n\z/, out)
  end

  def test_where_there_is_no_terminal_a_line_each_second
    start
    IO.popen([OWN.merge(AS_ROOT), BIN, "top", { chdir: @server.dir }]) do |io|
      lines = Timeout.timeout(PATIENCE) { Array.new(2) { io.gets } }
      lines.each { |line| assert_match(/\A#{Regexp.escape(site)}: #{LINE}\n\z/, line) }
      Process.kill(:TERM, io.pid)
    end
  end

  # Yields keys, the process and what waits for a pattern on the screen; in the end the other screen has to be left as it was.
  def on_terminal
    start
    PTY.spawn(OWN.merge(AS_ROOT).merge("TERM" => "xterm-256color"), BIN, "top", chdir: @server.dir) do |screen, keys, pid|
      screen.winsize = [24, 100]
      seen = +""
      read = ->(pattern) { Timeout.timeout(PATIENCE) { seen << screen.readpartial(65_536).force_encoding("BINARY") until seen.match?(pattern) } }
      read.(/Slowest/)
      seen.clear
      yield keys, pid, read, screen
      read.(/\e\[\?1049l/)
      assert_equal 0, Process.wait2(pid)[1].exitstatus
    rescue Errno::EIO
      flunk "the terminal was closed after:\n#{seen}"
    end
  end

  def test_on_a_terminal_until_q
    on_terminal do |keys, _, read, screen|
      # Another size is another picture.
      screen.winsize = [40, 120]
      read.(/Slowest/)
      keys.write("q")
    end
  end

  def test_a_signal_leaves_the_terminal_as_it_was
    on_terminal { |_, pid| Process.kill(:TERM, pid) }
  end

  def test_without_a_server
    @server = Struct.new(:dir).new(app("config.ru" => APP))
    out, status = command(@server, "top", "--once")
    assert_equal 1, status
    assert_includes out, "no server answers at tmp/paceline.sock"
    @server = nil
  end
end
