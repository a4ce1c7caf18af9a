# An HTTP/2 client (RFC 9113) that writes frames as it is told, also wrong ones. Of response headers it knows only :status,
# and that only where HPACK's static table has it (200 204 206 304 400 404 500) or it is written plainly.
require "socket"
require "timeout"

class Http2Client
  PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".freeze
  DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
  END_STREAM, ACK, END_HEADERS = 1, 1, 4
  STATUS = { 8 => 200, 9 => 204, 10 => 206, 11 => 304, 12 => 400, 13 => 404, 14 => 500 }.freeze
  HEADER_TABLE_SIZE, ENABLE_CONNECT_PROTOCOL = 1, 8

  Frame = Struct.new(:type, :flags, :stream, :payload)

  attr_reader :settings

  def initialize(io)
    @io = io
    @next = 1
    @settings = {}
    @io.write(PREFACE)
    # Without a dynamic table the server has to write each :status out.
    frame(SETTINGS, 0, 0, [HEADER_TABLE_SIZE, 0].pack("nN"))
    first = read
    raise "the server began with #{first.inspect}" unless first&.type == SETTINGS
    @settings = first.payload.unpack("nN" * (first.payload.bytesize / 6)).each_slice(2).to_h
    frame(SETTINGS, ACK, 0)
  end

  def frame(type, flags, stream, payload = "".b)
    @io.write([payload.bytesize].pack("N")[1..] + [type, flags, stream].pack("CCN") + payload)
  end

  # The number of a stream that has not been opened.
  def next_stream = (@next += 2) - 2

  # Opens a stream and returns its number.
  def request(headers = {}, method: "GET", path: "/", scheme: "http", authority: "shop.test", end_stream: true)
    stream = next_stream
    pseudo = { ":method" => method, ":scheme" => scheme, ":path" => path, ":authority" => authority }.compact
    frame(HEADERS, END_HEADERS | (end_stream ? END_STREAM : 0), stream, encode(pseudo.merge(headers)))
    stream
  end

  def encode(headers)
    headers.flat_map { |name, values| Array(values).map { |value| "\0".b + text(name) + text(value) } }.join
  end

  # The next frame; pings and settings are acknowledged on the way. nil when the server has closed.
  def read(timeout: 30) = Timeout.timeout(timeout) { following }

  # [status, body] of the stream; a reset is [:reset, code], the end of the connection [:closed].
  def response(stream)
    status, body = nil, +"".b
    # One for all frames: each is a thread.
    Timeout.timeout(60) do
      while (one = following)
        next unless one.stream == stream
        case one.type
        when HEADERS then status ||= status_of(one.payload)
        when DATA
          body << one.payload
          unless one.payload.empty?
            make_room(one.payload.bytesize, 0, stream)
          end
        when RST_STREAM then return [:reset, one.payload.unpack1("N")]
        end
        return [status, body] if one.flags & END_STREAM == END_STREAM
      end
    end
    [:closed]
  end

  # Frames of the stream until its response head.
  def head(stream)
    loop do
      one = read or return :closed
      return status_of(one.payload) if one.stream == stream && one.type == HEADERS
    end
  end

  def data(stream, bytes, end_stream: false) = frame(DATA, end_stream ? END_STREAM : 0, stream, bytes)

  def reset(stream, code = 8) = frame(RST_STREAM, 0, stream, [code].pack("N"))

  # Reads on until the server closes; the code of its GOAWAY, if it sent one.
  def ending
    code = nil
    while (one = read)
      code = one.payload[4, 4].unpack1("N") if one.type == GOAWAY
    end
    code
  end

  def close = @io.close

  private

  def following
    loop do
      head = @io.read(9) or return nil
      return nil if head.bytesize < 9
      length, type, flags, stream = [("\0".b + head[0, 3]).unpack1("N"), *head[3..].unpack("CCN")]
      payload = length.zero? ? "".b : @io.read(length)
      next frame(PING, ACK, 0, payload) if type == PING && flags & ACK == 0
      next if type == WINDOW_UPDATE || (type == SETTINGS && flags & ACK == ACK)
      return Frame.new(type, flags, stream & 0x7fff_ffff, payload)
    end
  rescue Errno::ECONNRESET
    nil
  end

  # A server that is done may have closed already.
  def make_room(bytes, *streams)
    streams.each { |stream| frame(WINDOW_UPDATE, 0, stream, [bytes].pack("N")) }
  rescue Errno::EPIPE, Errno::ECONNRESET
    nil
  end

  # HPACK string without Huffman; lengths from 127 in continued form.
  def text(string)
    bytes = string.b
    return [bytes.bytesize].pack("C") + bytes if bytes.bytesize < 127
    rest = bytes.bytesize - 127
    length = [127]
    length << (rest & 127 | 128) && rest >>= 7 while rest > 127
    (length << rest).pack("C*") + bytes
  end

  def status_of(block)
    block = block[1..] while (block.getbyte(0) & 0xe0) == 0x20 # a new size of the table
    first = block.getbyte(0)
    return STATUS.fetch(first & 127) if first[7] == 1
    # A literal with the name :status (static 8-14); three digits plainly, or Huffman: 0-2 take 5 bits, 3-9 six.
    length = block.getbyte(1)
    value = block[2, length & 127]
    length[7] == 0 ? value.to_i : huffman_digits(value)
  end

  def huffman_digits(value)
    bits = value.unpack1("B*")
    digits = +""
    while digits.size < 3
      five = bits[0, 5].to_i(2)
      digits << (five < 3 ? five.to_s : (bits[0, 6].to_i(2) - 0x19 + 3).to_s)
      bits = bits[(five < 3 ? 5 : 6)..]
    end
    digits.to_i
  end
end
