# frozen_string_literal: true

# A server that answers as it is told to: `ruby scripted_server.rb PORT MODE`.
require "socket"

HELLO = "hello\n"
answers = 0
$0 = "scripted worker"
trap("TERM") { exit!(0) }
listener = TCPServer.new("127.0.0.1", ARGV[0].to_i)

respond = lambda do |status, body|
  "HTTP/1.1 #{status} Scripted\r\nContent-Length: #{body.bytesize}\r\n\r\n#{body}"
end

answer = lambda do |number|
  case ARGV[1]
  when "500", "404" then respond[ARGV[1], HELLO]
  when "empty" then respond[200, ""]
  when "long" then respond[200, HELLO * 2]
  # After those that come before the first load.
  when "sometimes" then number > 40 && (number % 10).zero? ? respond[500, HELLO] : respond[200, HELLO]
  # Works for a second after those that come before the first load.
  when "lingers"
    if number == 40
      Process.detach(fork do
        limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 1
        nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < limit
        exit!(0)
      end)
    end
    respond[200, HELLO]
  when "slow"
    sleep 0.1
    respond[200, HELLO]
  else respond[200, HELLO]
  end
end

loop do
  Thread.new(listener.accept) do |socket|
    loop do
      while (line = socket.gets) && line != "\r\n" do end
      break unless line
      exit!(1) if ARGV[1] == "ends" && answers > 40

      socket.write(answer[answers += 1])
    end
    socket.close
  rescue SystemCallError
    nil
  end
end
