# frozen_string_literal: true

# A server in this process that gives the same answer to every request, or on each connection one of an Enumerator after the other.
require "socket"

module Answering
  private

  # The block gets its port. CLOSES: after each answer. The first line of each request goes to LINES.
  def serving(answer, closes, lines = nil)
    server = TCPServer.new("127.0.0.1", 0)
    threads = []
    accepting = Thread.new do
      loop do
        threads << Thread.new(server.accept) { |socket| serve(socket, answer, closes, lines) }
      end
    rescue IOError
      nil
    end
    yield server.addr[1]
  ensure
    server.close
    accepting.join
    threads.each(&:kill)
  end

  def serve(socket, answer, closes, lines)
    answers = answer.is_a?(Enumerator) ? answer.dup : [answer].cycle
    loop do
      first = nil
      while (line = socket.gets) && line != "\r\n"
        first ||= line.chomp
      end
      break unless line

      lines&.push(first)
      socket.write(answers.next)
      break if closes
    end
    socket.close
  rescue SystemCallError
    nil
  end
end
