# frozen_string_literal: true

# Visitors who each ask for a page at random, again and again, at a steady rate, in a process of their own. It only measures.
require "socket"

module Bench
  class ScheduledVisitors
    # When it was to be sent, how long it took (s) and what was answered: "before", "after" or "failed".
    Answer = Struct.new(:sent, :took, :said)

    def initialize(port, pages:, connections:, rate:)
      @port = port
      @pages = pages
      @connections = connections
      @rate = rate
    end

    # Until the time TO; the answers.
    def run(to)
      reading, writing = IO.pipe(binmode: true)
      pid = fork do
        reading.close
        answers = Array.new(@connections) { |number| Thread.new { visit(Random.new(number), to) } }.flat_map(&:value)
        Marshal.dump(answers.map(&:to_a), writing)
        writing.close
        exit!(0)
      end
      writing.close
      answers = Marshal.load(reading).map { |values| Answer.new(*values) }
      Process.wait(pid)
      answers
    end

    private

    # Requests are due at fixed times: one that has to wait for the one before has waited since it was due.
    def visit(random, to)
      pause = @connections / Float(@rate)
      due = Time.now.to_f + random.rand * pause
      answers = []
      while due < to
        wait = due - Time.now.to_f
        sleep(wait) if wait.positive?
        answers << Answer.new(due, nil, ask("/sales/#{random.rand(@pages)}"))
        answers.last.took = Time.now.to_f - due
        due += pause
      end
      answers
    end

    def ask(path)
      socket = (Thread.current[:socket] ||= TCPSocket.new("127.0.0.1", @port).tap { |one| one.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) })
      socket.write("GET #{path} HTTP/1.1\r\nHost: sale.test\r\n\r\n")
      status = socket.gets.to_s[/ (\d+)/, 1]
      length = 0
      while (line = socket.gets) && line != "\r\n"
        length = line[/\d+/].to_i if line.match?(/\Acontent-length:/i)
      end
      body = socket.read(length)
      status == "200" ? body[/\A\w+/] : "failed"
    rescue SystemCallError, IOError
      Thread.current[:socket]&.close
      Thread.current[:socket] = nil
      "failed"
    end
  end
end
