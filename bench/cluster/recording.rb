# frozen_string_literal: true

# The commands that real fronts send to a real Valkey, as its MONITOR shows them: one of each kind, and how many of them while pages are purged. What they cost is
# not measured here.
require "fileutils"
require "json"
require "net/http"
require "socket"
require "timeout"
require_relative "../../test/e2e/support/origin"
require_relative "../../test/e2e/support/wire"
require_relative "../lib/servers"

module Bench
  # Some fronts and the Valkey at `port`, which goes on after them.
  class ClusterRecording
    FRONTS = 3
    KINDS = %w[beat publish members lead write hit read].freeze
    LIMIT = 30
    ESCAPES = { "n" => "\n", "r" => "\r", "t" => "\t", "a" => "\a", "b" => "\b" }.freeze

    # The arguments of a line of MONITOR; nil of other lines.
    def self.arguments(line)
      found = line[/\A\+?\d+\.\d+ \[[^\]]*\] (.*)/m, 1] or return
      found.scan(/"((?:[^"\\]|\\.)*)"/mn).map { |(text)| text.gsub(/\\(x\h\h|.)/mn) { |escape| plain(escape[1..]) } }
    end

    def self.plain(escape) = escape.start_with?("x") && escape.size == 3 ? escape[1..].hex.chr : ESCAPES.fetch(escape, escape)

    # Which kind of command that is, by the keys it names; nil of those that don't matter.
    def self.kind(arguments)
      return ("read" if arguments.first == "XREAD") unless arguments.first == "EVALSHA"
      keys = arguments[3, arguments[2].to_i].map { |key| key[/\}:(\w+)/, 1] }
      case keys
      in ["members", "end", *] then "beat"
      in ["journal", "end", *] then "publish"
      in ["members"] then "members"
      in ["page", "lease"] then "look"
      in ["lease", "page", *] then arguments[(3 + keys.size)..].any? { |argument| argument.bytesize > 100 } ? "write" : nil
      else nil
      end
    end

    def initialize(port, folder, page_bytes)
      @port, @folder, @page = port, folder, "x" * page_bytes
    end

    # {kind => arguments}, `lead` and `hit` are both a look at a page; and what the block returns, which may ask for `rates`.
    def run
      origin = Origin.new(UNIXServer.new(File.join(@folder, "application"))) do |link, _|
        link.answer(@page, fields: ["Cache-Control: max-age=600", "Surrogate-Key: shelf book-4711"]) while link.head
      end
      watch
      pids = Array.new(FRONTS) { |number| front(number) }
      FRONTS.times { |number| until_true { control(number, "/cluster")["shows_pages"] && control(number, "/cluster")["shared_cache"]["is_connected"] } }
      get(0)
      until_true { control(0, "/cluster")["shared_cache"]["writes"] == 1 }
      get(1)
      control(0, "/cache/purge", { tag: "book-4711", wait: true })
      until_true { (KINDS - found.keys).empty? }
      yield self if block_given?
      found
    ensure
      pids&.each { |pid| Process.kill("KILL", pid) && Process.wait(pid) }
      @monitor&.close
      @watching&.join
      origin&.close
    end

    # How many of each kind come a second, while each front has so many purges a second for so long: the purges first.
    def rates(each, seconds)
      found
      from, limit = now, now + seconds
      done = Array.new(FRONTS) do |number|
        Thread.new do
          (0..).find do |nth|
            due = from + ((nth + (number / FRONTS.to_f)) / each)
            next true if due > limit
            sleep [due - now, 0].max
            control(number, "/cache/purge", { tag: "none" })
            false
          end
        end
      end.sum(&:value)
      time = now - from
      counts = Array.new(@lines.size) { @lines.pop.b }.filter_map { |line| self.class.arguments(line)&.then { |arguments| self.class.kind(arguments) } }.tally
      [done / time, counts.transform_values { |count| count / time }]
    end

    private

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def watch
      @lines = Queue.new
      @monitor = TCPSocket.new("127.0.0.1", @port)
      @monitor.write("MONITOR\r\n")
      @monitor.gets
      @watching = Thread.new do
        while (line = @monitor.gets("\r\n"))
          @lines << line
        end
      rescue IOError
        nil
      end
    end

    def found
      @found ||= {}
      until @lines.empty?
        arguments = self.class.arguments(@lines.pop.b) or next
        kind = self.class.kind(arguments)
        # The first look at the page finds none, the second one of another front does.
        kind = @found.key?("lead") && @found.key?("write") ? "hit" : "lead" if kind == "look"
        @found[kind] ||= arguments if kind
      end
      @found
    end

    def front(number)
      folder = File.join(@folder, "front#{number}")
      FileUtils.mkdir_p(folder)
      File.write(File.join(folder, "paceline.toml"), <<~TOML)
        bind = ["unix://#{folder}/http"]
        [cluster]
        url = "redis://127.0.0.1:#{@port}"
        name = "bench"
        shared_cache = true
        shared_cache_time = "1s"
        [[site]]
        upstream = "http://unix:#{@folder}/application"
      TOML
      environment = { "PACELINE_LIVE_RELOAD" => "false", "PACELINE_GEM_DIR" => File.join(Servers::HERE, "gem") }
      pid = Process.spawn(environment, Servers.paceline, *Servers::AS_ROOT, chdir: folder, %i[out err] => File.join(folder, "log"))
      until_true { File.socket?(File.join(folder, "tmp/paceline.sock")) && File.socket?(File.join(folder, "http")) }
      pid
    end

    def get(number) = ask(File.join(@folder, "front#{number}/http"), "GET /page HTTP/1.1\r\nHost: bench.test\r\nConnection: close\r\n\r\n")

    def control(number, path, body = nil)
      text = body ? JSON.generate(body) : ""
      head = "#{body ? "POST" : "GET"} #{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: #{text.bytesize}\r\n\r\n"
      JSON.parse(ask(File.join(@folder, "front#{number}/tmp/paceline.sock"), head + text).body)
    end

    def ask(socket, request)
      UNIXSocket.open(socket) do |io|
        io.write(request)
        Timeout.timeout(LIMIT) { Wire.response(io) }
      end
    rescue Errno::ECONNREFUSED, Errno::ENOENT
      sleep 0.01
      retry
    end

    def until_true
      Timeout.timeout(LIMIT) { sleep 0.01 until yield }
    end
  end
end
