# A WebSocket client (RFC 6455) small enough to trust: text messages, masked, in one frame each.
require "digest"
require "securerandom"
require "socket"
require "timeout"
require "uri"

class WebSocket
  class Refused < StandardError; end

  GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11".freeze

  attr_reader :status, :headers

  def self.open(url, **options)
    socket = new(url, **options)
    yield socket
  ensure
    socket&.close
  end

  def initialize(url, protocols: [], origin: nil, headers: {})
    uri = URI(url)
    @io = TCPSocket.new(uri.host, uri.port)
    key = SecureRandom.base64(16)
    lines = ["GET #{uri.request_uri} HTTP/1.1", "Host: #{uri.host}:#{uri.port}", "Connection: Upgrade", "Upgrade: websocket",
      "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: #{key}"]
    lines << "Sec-WebSocket-Protocol: #{protocols.join(", ")}" if protocols.any?
    lines << "Origin: #{origin}" if origin
    headers.each { |name, value| lines << "#{name}: #{value}" }
    @io.write(lines.join("\r\n") + "\r\n\r\n")
    read_head
    expected = [Digest::SHA1.digest(key + GUID)].pack("m0")
    raise Refused, "#{@status} #{@headers}" unless @status == 101 && @headers["sec-websocket-accept"] == expected
  end

  def write(text)
    frame(1, text.b)
  end

  # The next text message; pings are answered on the way, and a close is nil.
  def read(timeout: 10)
    Timeout.timeout(timeout) do
      message = String.new
      loop do
        first, second = exactly(2).bytes
        length = second & 127
        length = exactly(2).unpack1("n") if length == 126
        length = exactly(8).unpack1("Q>") if length == 127
        data = exactly(length)
        case first & 15
        when 0, 1, 2 then message << data
        when 8 then return nil
        when 9 then frame(10, data)
        end
        return message.force_encoding(Encoding::UTF_8) if first[7] == 1 && [0, 1, 2].include?(first & 15)
      end
    end
  end

  def close
    frame(8, [1000].pack("n")) unless @io.closed?
    @io.close
  rescue SystemCallError, IOError
    nil
  end

  private

  def read_head
    @status = @io.gets.to_s[/\AHTTP\/1\.1 (\d{3})/, 1].to_i
    @headers = {}
    while (line = @io.gets&.chomp) && !line.empty?
      name, value = line.split(":", 2)
      @headers[name.downcase] = value.strip
    end
  end

  def exactly(length)
    return "".b if length.zero?
    data = @io.read(length)
    raise EOFError, "the server hung up" if data.nil? || data.bytesize < length
    data
  end

  def frame(opcode, data)
    mask = SecureRandom.bytes(4).bytes
    length = data.bytesize
    head = [0x80 | opcode].pack("C")
    head << if length < 126 then [0x80 | length].pack("C")
            elsif length < 65_536 then [0x80 | 126, length].pack("Cn")
            else [0x80 | 127, length].pack("CQ>")
            end
    @io.write(head + mask.pack("C4") + data.bytes.each_with_index.map { |byte, i| byte ^ mask[i & 3] }.pack("C*"))
  end
end
