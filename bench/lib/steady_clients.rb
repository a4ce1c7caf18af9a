# frozen_string_literal: true

# Clients that ask for pages at random at fixed times, in a process of their own, so that they share no lock of Ruby with what starts servers. Only measures.
#
#   class Visitors < SteadyClients
#     def path(random) = "/pages/#{random.rand(10)}"
#     def answer(due, took, status, body) = [took, status]
#   end
#   Visitors.new(port, connections: 20, rate: 10, host: "pages.test").start(Time.now.to_f + 5).call     # what `answer` returned of each
require "socket"

module Bench
  class SteadyClients
    # RATE: requests a second of all CONNECTIONS together. FIELDS: more lines of the request's head.
    def initialize(port, connections:, rate:, host:, fields: [])
      @port = port
      @connections = connections
      @rate = rate
      @head = ["Host: #{host}", *fields].map { |field| "#{field}\r\n" }.join
    end

    # Begins to ask, until the time TO. What it returns gives the answers, when that has passed.
    def start(to)
      reading, writing = IO.pipe(binmode: true)
      pid = fork do
        reading.close
        Marshal.dump(Array.new(@connections) { |number| Thread.new { visit(Random.new(number), to) } }.flat_map(&:value), writing)
        writing.close
        exit!(0)
      end
      writing.close
      lambda do
        answers = Marshal.load(reading)
        Process.wait(pid)
        answers
      end
    end

    private

    # When the next request is due, of one every PAUSE (s): also while those before are late.
    def next_due(due, pause) = due + pause

    # One that has to wait for the one before has waited since it was due.
    def visit(random, to)
      pause = @connections / Float(@rate)
      due = Time.now.to_f + random.rand * pause
      answers = []
      while due < to
        wait = due - Time.now.to_f
        sleep(wait) if wait.positive?
        status, body = ask(path(random))
        answers << answer(due, Time.now.to_f - due, status, body)
        due = next_due(due, pause)
      end
      answers
    end

    # Status and body; neither if the connection is lost.
    def ask(path)
      socket = (Thread.current[:socket] ||= TCPSocket.new("127.0.0.1", @port).tap { |one| one.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) })
      socket.write("GET #{path} HTTP/1.1\r\n#{@head}\r\n")
      status = socket.gets.to_s[/ (\d+)/, 1]
      length = 0
      while (line = socket.gets) && line != "\r\n"
        length = line[/\d+/].to_i if line.match?(/\Acontent-length:/i)
      end
      [status&.to_i, socket.read(length)]
    rescue SystemCallError, IOError
      Thread.current[:socket]&.close
      Thread.current[:socket] = nil
    end
  end
end
