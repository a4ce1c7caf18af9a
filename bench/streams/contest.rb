# frozen_string_literal: true

# Pages beside open event streams, server by server and round by round in turn. Prints nothing.
require "fileutils"
require "socket"
require "timeout"
require "tmpdir"
require_relative "../lib/arithmetic"
require_relative "../lib/processes"
require_relative "../lib/round_contest"
require_relative "../lib/running_server"

module Bench
  # Options: streams [...], rate, connections, seconds, rounds.
  class StreamsContest < RoundContest
    APP = File.expand_path("app.ru", __dir__)
    # Seconds in which a stream must say its first word, and a page must come; then it counts as lost.
    PATIENCE = 5
    # Seconds for the streams to settle.
    SETTLING = 1

    # {[server, streams] => what was found in each round}.
    def run
      rows = @options[:streams].product(servers.map(&:name)).to_h { |streams, name| [[name, streams], []] }
      @options[:rounds].times do |round|
        @options[:streams].each do |streams|
          servers.each do |server|
            what = "round #{round + 1}: #{server.name} beside #{streams} streams"
            @told.call(what, false)
            rows[[server.name, streams]] << (found = measure(server, streams))
            @told.call("#{what}: p99 #{found[:p99]&.round(1) || "none"} ms, #{found[:lost]} lost, #{found[:open]} streams open", true)
          end
        end
      end
      rows
    end

    private

    def servers
      @servers ||= Servers.named(%w[paceline puma]).map { |server| server.name == "paceline" ? with_room(server) : server }
    end

    # As many streams as there are, on whichever worker.
    def with_room(server)
      command = server.command
      server.dup.tap { |one| one.command = ->(port, work) { [*command.call(port, work), "--stream-threads", @options[:streams].max] } }
    end

    def measure(server, streams)
      Dir.mktmpdir("paceline-streams-") do |work|
        folder = File.join(work, "app")
        FileUtils.mkdir_p(folder)
        FileUtils.cp(APP, File.join(folder, "config.ru"))
        app = Struct.new(:directory, :environment).new(folder, { "XDG_STATE_HOME" => File.join(work, "state") })
        running = RunningServer.new(server, app, @processes, work, "/").start
        beside(running.port, streams)
      ensure
        running&.stop
      end
    end

    # The clients are a process of their own, so that they do not share Ruby's lock with what starts servers.
    def beside(port, streams)
      reading, writing = IO.pipe(binmode: true)
      pid = fork do
        reading.close
        sockets = Array.new(streams) { request(port, "/events") }
        open = first_words(sockets)
        sleep SETTLING
        Marshal.dump({ open: open, **visit(port) }, writing)
        writing.close
        exit!(0)
      end
      writing.close
      @processes.own(pid) { Marshal.load(reading) }
    ensure
      Process.wait(pid) if pid
    end

    def request(port, path)
      TCPSocket.new("127.0.0.1", port).tap do |socket|
        socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
        socket.write("GET #{path} HTTP/1.1\r\nHost: bench.test\r\n\r\n")
      end
    end

    # How many streams have said something.
    def first_words(sockets)
      limit = now + PATIENCE
      waiting = sockets.dup
      while waiting.any? && (left = limit - now).positive? && (ready = IO.select(waiting, nil, nil, left))
        waiting -= ready[0]
      end
      sockets.size - waiting.size
    end

    # Requests are due at fixed times: one that has to wait for the one before has waited since it was due.
    def visit(port)
      began = now + 0.1
      pause = @options[:connections] / Float(@options[:rate])
      times = Array.new(@options[:connections]) do |number|
        Thread.new do
          due = began + (pause * number / @options[:connections])
          Array.new((@options[:seconds] / pause).floor) { |nth| page(port, due + (nth * pause)) }
        end
      end.flat_map(&:value)
      answered = times.compact
      { p50: Arithmetic.percentile(answered, 50), p99: Arithmetic.percentile(answered, 99), lost: times.size - answered.size, asked: times.size }
    end

    # Milliseconds since it was due; nil: it did not come.
    def page(port, due)
      wait = due - now
      sleep(wait) if wait.positive?
      return if now > due + PATIENCE

      socket = (Thread.current[:socket] ||= TCPSocket.new("127.0.0.1", port).tap { |one| one.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) })
      socket.write("GET / HTTP/1.1\r\nHost: bench.test\r\n\r\n")
      Timeout.timeout([due + PATIENCE - now, 0.001].max) { answer(socket) }
      (now - due) * 1000
    rescue Timeout::Error, SystemCallError, EOFError
      Thread.current[:socket]&.close
      Thread.current[:socket] = nil
    end

    def answer(socket)
      raise EOFError unless socket.gets.to_s.include?(" 200 ")

      length = 0
      while (line = socket.gets) && line != "\r\n"
        length = line[/\d+/].to_i if line.match?(/\Acontent-length:/i)
      end
      socket.read(length).bytesize == length or raise EOFError
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
