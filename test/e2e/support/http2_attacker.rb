# An HTTP/2 client with bad manners: it floods, keeps silent where it should go on, and reads only when it is told to.
# It asserts nothing itself.
require_relative "http2_client"

class Http2Attacker < Http2Client
  PRIORITY, UNKNOWN = 2, 0xfa
  INITIAL_WINDOW_SIZE, MAX_STREAMS = 4, 3
  CANCEL, REFUSED_STREAM, CALM = 8, 7, 11
  LAST = "the end!".b.freeze

  # Begins with the preface and these SETTINGS, and reads the server's.
  def initialize(io, settings = {})
    super(io)
    frame(SETTINGS, 0, 0, settings.flatten.pack("nN" * settings.size)) unless settings.empty?
  end

  def frame_bytes(type, flags = 0, stream = 0, payload = "".b)
    [payload.bytesize].pack("N")[1..] + [type, flags, stream].pack("CCN") + payload
  end

  def window_update(stream, increment = 1) = frame(WINDOW_UPDATE, 0, stream, [increment].pack("N"))

  # Sends the bytes over and over while it reads what comes, and at last a PING. Returns how the server ended it: the code of
  # its GOAWAY, :closed without one, or :open when it bore all of it and answered the PING.
  def flood(bytes, times, batch: 100)
    sending, left, @code, @answers = "".b, times, nil, "".b
    Timeout.timeout(60) do
      loop do
        if sending.empty? && left > 0
          count = [batch, left].min
          left -= count
          sending = bytes * count
          sending << frame_bytes(PING, 0, 0, LAST) if left.zero?
        end
        readable, writable = IO.select([@io], sending.empty? ? [] : [@io])
        take(@io.read_nonblock(65_536)) unless readable.empty?
        return :open if @borne
        sending = sending.byteslice(@io.write_nonblock(sending)..) unless writable.empty?
      end
    end
  rescue EOFError, Errno::EPIPE, Errno::ECONNRESET
    rest
    @code || :closed
  end

  private

  def rest
    loop { take(@io.readpartial(65_536)) }
  rescue EOFError, SystemCallError
    nil
  end

  # Looks for GOAWAY and the answer to the last PING in what the server says.
  def take(bytes)
    @answers << bytes
    while @answers.bytesize >= 9
      length = ("\0".b + @answers[0, 3]).unpack1("N")
      break if @answers.bytesize < 9 + length
      frame = @answers.slice!(0, 9 + length)
      @code = frame[13, 4].unpack1("N") if frame.getbyte(3) == GOAWAY
      @borne = true if frame.getbyte(3) == PING && frame.getbyte(4) == ACK && frame[9..] == LAST
    end
  end
end
