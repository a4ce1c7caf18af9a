# frozen_string_literal: true

# Clients that each ask for a page at random at fixed times, in a process of their own: visitors, or a crawler. It only measures.
require "socket"

module Bench
  class CrawlersPeople
    # How long it took (s), from the time at which it was due, and the status; nil: none.
    Answer = Struct.new(:took, :status)

    # FIELDS: lines of the request's head.
    def initialize(port, fields:, connections:, rate:, pages:)
      @port = port
      @fields = fields
      @connections = connections
      @rate = rate
      @pages = pages
    end

    # Begins to ask, until the time TO. What it returns gives the answers, when that has passed.
    def start(to)
      reading, writing = IO.pipe(binmode: true)
      pid = fork do
        reading.close
        answers = Array.new(@connections) { |number| Thread.new { visit(Random.new(number), to) } }.flat_map(&:value)
        Marshal.dump(answers.map(&:to_a), writing)
        writing.close
        exit!(0)
      end
      writing.close
      lambda do
        answers = Marshal.load(reading).map { |values| Answer.new(*values) }
        Process.wait(pid)
        answers
      end
    end

    private

    # One that has to wait for the one before has waited since it was due.
    def visit(random, to)
      pause = @connections / Float(@rate)
      due = Time.now.to_f + random.rand * pause
      answers = []
      while due < to
        wait = due - Time.now.to_f
        sleep(wait) if wait.positive?
        status = ask("/pages/#{random.rand(@pages)}")
        answers << Answer.new(Time.now.to_f - due, status)
        # What could not be sent in time is left out: a crawler does not catch up.
        due += pause * [1, ((Time.now.to_f - due) / pause).floor].max
      end
      answers
    end

    def ask(path)
      socket = (Thread.current[:socket] ||= TCPSocket.new("127.0.0.1", @port).tap { |one| one.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) })
      socket.write("GET #{path} HTTP/1.1\r\nHost: pages.test\r\n#{@fields.map { |field| "#{field}\r\n" }.join}\r\n")
      status = socket.gets.to_s[/ (\d+)/, 1]
      length = 0
      while (line = socket.gets) && line != "\r\n"
        length = line[/\d+/].to_i if line.match?(/\Acontent-length:/i)
      end
      socket.read(length)
      status && Integer(status)
    rescue SystemCallError, IOError
      Thread.current[:socket]&.close
      Thread.current[:socket] = nil
    end
  end
end
