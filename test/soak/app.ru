# What the soak asks: an answer of each kind that a worker can give, each of them known beforehand.
require "digest"

PIECE = "0123456789abcdef" * 1024

class Pieces
  def initialize(count) = @count = count
  def each = @count.times { yield PIECE }
end

class Events
  def each
    1000.times do |number|
      yield "data: #{number}\n\n"
      sleep 0.02
    end
  end
end

def echo_frames(io)
  while (first, second = io.read(2)&.bytes)
    mask = io.read(4).bytes
    text = io.read(second & 127).to_s.bytes.each_with_index.map { |byte, i| byte ^ mask[i & 3] }.pack("C*")
    io.write([first, text.bytesize].pack("CC") + text)
    break if first & 15 == 8
  end
rescue SystemCallError, IOError, NoMethodError
  nil # the client left in the middle of a frame
ensure
  io.close
end

run lambda { |env|
  case env["PATH_INFO"]
  when "/upload" then [200, {}, [Digest::SHA256.hexdigest(env["rack.input"].read)]]
  when "/download" then [200, {}, Pieces.new(env["QUERY_STRING"].to_i)]
  when "/events" then [200, { "content-type" => "text/event-stream" }, Events.new]
  when "/socket"
    accept = [Digest::SHA1.digest(env["HTTP_SEC_WEBSOCKET_KEY"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")].pack("m0")
    env["rack.hijack"].call
    io = env["rack.hijack_io"]
    io.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: #{accept}\r\n\r\n")
    Thread.new { echo_frames(io) }
    [-1, {}, []]
  else [200, {}, ["hello ", env["QUERY_STRING"]]]
  end
}
