# A Valkey or Redis of a test's own, on a Unix socket in a folder that goes with it. It asserts nothing itself.
require "fileutils"
require "open3"
require "timeout"
require "tmpdir"

class Valkey
  # The server: VALKEY_SERVER (a path), or the one of PATH. Nil: there is none.
  def self.program = ENV["VALKEY_SERVER"] || in_path("valkey-server", "redis-server")

  # Its own client, or that of PATH: they speak the same.
  def self.client
    own = program.sub(/server\z/, "cli")
    own.include?("/") && !File.executable?(own) ? in_path("valkey-cli", "redis-cli") || own : own
  end

  def self.in_path(*programs) = programs.find { |program| ENV["PATH"].split(":").any? { |folder| File.executable?(File.join(folder, program)) } }

  # A command has had no answer.
  Failed = Class.new(StandardError)

  attr_reader :pid, :socket

  # WITHIN: a command that it is run by, and that takes its place.
  def initialize(*options, within: [])
    @within, @role = within, []
    @folder = Dir.mktmpdir("paceline-valkey-")
    @socket = File.join(@folder, "socket")
    @options = options
    start
  end

  def url(query = "") = "unix://#{@socket}#{query}"

  # Returns when it answers. With what it saved when it was stopped, if it saved anything. ROLE: options from this start on.
  def start(*role)
    @role = role if role.any?
    said, tell = IO.pipe
    @pid = Process.spawn(*@within, *program, out: tell, err: tell, in: File::NULL)
    tell.close
    lines = []
    Timeout.timeout(30) do
      lines << (said.gets || raise("#{Valkey.program} ended: #{lines.join}")) until lines.last&.match?(ready)
    end
    # It goes on telling.
    @drain = Thread.new { said.each_line {} }
  end

  # What redis-cli prints.
  def cli(*arguments)
    out, status = Open3.capture2e(Valkey.client, "-s", @socket, *arguments)
    status.success? ? out : raise(Failed, "#{arguments.join(" ")}: #{out}")
  end

  # Its name and version. Valkey says which Redis it is like, too.
  def version
    said = cli("INFO", "server")
    said[/^valkey_version:(\S+)/, 1]&.then { |version| "Valkey #{version}" } || "Redis #{said[/^redis_version:(\S+)/, 1]}"
  end

  # Ends, and forgets everything.
  def kill
    Process.kill(:KILL, @pid)
    ended
  end

  # Of what it has saved, too.
  def forget = FileUtils.rm_f(File.join(@folder, "dump.rdb"))

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
  def program = [Valkey.program, "--port", "0", "--unixsocket", @socket, "--save", "", "--appendonly", "no", "--dir", @folder, *@options, *@role]

  # What it says when it answers.
  def ready = /ready to accept/i

  def ended
    Process.wait(@pid)
    @drain.join
    @pid = nil
  end
end
