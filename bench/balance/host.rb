# frozen_string_literal: true

# A host behind a balancer: `ruby host.rb PORT MILLISECONDS`. It has five threads' worth of work: each answer takes as long as that, and the sixth waits.
require "socket"

port, time = Integer(ARGV[0]), Float(ARGV[1]) / 1000
threads = Thread::SizedQueue.new(5)
server = TCPServer.new("127.0.0.1", port)
server.listen(1024)
answer = "HTTP/1.1 200 OK\r\nContent-Length: 1024\r\nContent-Type: text/plain\r\n\r\n#{"x" * 1024}"
loop do
  Thread.new(server.accept) do |io|
    io.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
    while (line = io.gets("\r\n"))
      next unless line == "\r\n"

      threads << true
      begin
        sleep time if time.positive?
      ensure
        threads.pop
      end
      io.write(answer)
    end
  rescue SystemCallError, IOError
    nil
  ensure
    io.close
  end
end
