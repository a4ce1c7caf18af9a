# frozen_string_literal: true

# One server of the cluster on a host of its own. It is asked by Unix sockets, so faults of the network do not come between it and its clients. It asserts
# nothing.
require "fileutils"
require "json"
require "net/http"
require "socket"
require "timeout"
require_relative "../../e2e/support/wire"
require_relative "history"
require_relative "pages"

class Member
  CHECKOUT = File.expand_path("../../..", __dir__)
  BIN = ENV.fetch("PACELINE_BIN") { File.join(CHECKOUT, "target/release/paceline") }
  # No request takes this long, whatever is broken.
  PATIENCE = 10
  STARTS = 30

  attr_reader :number, :starts

  # WITHIN: the command that puts it on its host.
  def initialize(number, folder, settings, within, history)
    @number, @within, @history = number, within, history
    @folder = File.join(folder, "server#{number}")
    FileUtils.mkdir_p(@folder)
    File.write(File.join(@folder, "paceline.toml"), settings.sub("LISTEN", listens))
    @is_up, @starts = false, 0
  end

  def up? = @is_up

  def output = File.read(log)

  # Returns when it answers.
  def start
    clean = %w[RACK_ENV RAILS_ENV APP_ENV WEB_CONCURRENCY RAILS_MAX_THREADS PORT BUNDLE_GEMFILE RUBYOPT].to_h { |name| [name, nil] }
    env = { **clean, "PACELINE_USER" => "root", "PACELINE_LIVE_RELOAD" => "false", "PACELINE_GEM_DIR" => File.join(CHECKOUT, "gem") }
    @pid = Process.spawn(env, *@within, BIN, chdir: @folder, out: [log, "a"], err: %i[child out], in: File::NULL)
    @starts += 1
    limit = History.now + STARTS
    begin
      get(Pages::ALL.first.path)
    rescue SystemCallError, EOFError
      raise "server #{number} does not start:\n#{output}" if History.now > limit || Process.wait(@pid, Process::WNOHANG)
      sleep 0.01
      retry
    end
    @is_up = true
  end

  # Ends it as a power failure does, and starts it again.
  def crash(pause)
    start = History.now
    @is_up = false
    Process.kill(:KILL, @pid)
    Process.wait(@pid)
    sleep pause
    self.start
    @history.add("down", start: start, member: number)
  end

  def signal(name) = Process.kill(name, @pid)

  def close
    return unless @pid
    Process.kill(:CONT, @pid)
    Process.kill(:KILL, @pid)
    Process.wait(@pid)
  rescue SystemCallError
    nil
  end

  def get(path) = ask(listens, "GET #{path} HTTP/1.1\r\nHost: #{Pages::HOST}\r\nConnection: close\r\n\r\n")

  def post(path) = ask(listens, "POST #{path} HTTP/1.1\r\nHost: #{Pages::HOST}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

  # Status and JSON of the control socket.
  def control(path, body = nil)
    text = body ? JSON.generate(body) : ""
    answer = ask(File.join(@folder, "tmp/paceline.sock"), "#{body ? "POST" : "GET"} #{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: #{text.bytesize}\r\n\r\n#{text}")
    [answer.status, JSON.parse(answer.body)]
  end

  def shows_pages? = control("/cluster").last["shows_pages"] == true

  private

  def listens = File.join(@folder, "http")

  def log = File.join(@folder, "log")

  def ask(socket, request)
    UNIXSocket.open(socket) do |io|
      io.timeout = PATIENCE if io.respond_to?(:timeout=)
      io.write(request)
      Timeout.timeout(PATIENCE) { Wire.response(io) }
    end
  end
end
