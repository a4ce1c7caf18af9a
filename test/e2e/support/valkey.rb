# A Valkey or Redis of a test's own, on a Unix socket in a folder that goes with it. It asserts nothing itself.
require "fileutils"
require "open3"
require "timeout"
require "tmpdir"

class Valkey
  PROGRAM = %w[valkey-server redis-server].find { |program| ENV["PATH"].split(":").any? { |folder| File.executable?(File.join(folder, program)) } }

  attr_reader :pid, :socket

  def initialize(*options)
    @folder = Dir.mktmpdir("paceline-valkey-")
    @socket = File.join(@folder, "socket")
    @options = options
    start
  end

  def url(query = "") = "unix://#{@socket}#{query}"

  # Returns when it answers. With what it saved when it was stopped, if it saved anything.
  def start
    said, tell = IO.pipe
    @pid = Process.spawn(*program, out: tell, err: tell, in: File::NULL)
    tell.close
    lines = []
    Timeout.timeout(30) do
      lines << (said.gets || raise("#{PROGRAM} ended: #{lines.join}")) until lines.last&.match?(ready)
    end
    # It goes on telling.
    @drain = Thread.new { said.each_line {} }
  end

  # What redis-cli prints.
  def cli(*arguments)
    out, status = Open3.capture2e(PROGRAM.sub("server", "cli"), "-s", @socket, *arguments)
    status.success? ? out : raise("#{arguments.join(" ")}: #{out}")
  end

  # Ends, and forgets everything.
  def kill
    Process.kill(:KILL, @pid)
    ended
  end

  # Ends, and has everything again when it is started.
  def stop
    cli("SHUTDOWN", "SAVE")
    ended
  end

  def signal(name) = Process.kill(name, @pid)

  def close
    kill if @pid
    FileUtils.rm_rf(@folder)
  end

  private

  # Later options win.
  def program = [PROGRAM, "--port", "0", "--unixsocket", @socket, "--save", "", "--appendonly", "no", "--dir", @folder, *@options]

  # What it says when it answers.
  def ready = /ready to accept/i

  def ended
    Process.wait(@pid)
    @drain.join
    @pid = nil
  end
end
